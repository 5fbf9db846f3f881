"""Values of the standard library: errors, logging, code and tools that look at it."""

from __future__ import annotations

from durable_nb.testing.zoo import STANDARD, Value

LIBRARY = STANDARD
SETUP = """
import ast
import cProfile
import codecs
import fractions
import importlib.metadata
import importlib.util
import inspect
import logging
import logging.handlers
import sys
import timeit
import traceback
import types
import unittest
import unittest.mock
import warnings
"""
TRACE = "its traceback prints as it did, but the frames hold no variables; cause, context and notes are there"
VALUES = [
    Value(
        cls="ValueError",
        make="""
def failing():
    try:
        {}['a']
    except KeyError as cause:
        error = ValueError('wrong', 3)
        error.add_note('a note')
        error.extra = [1]
        raise error from cause

try:
    failing()
except ValueError as error:
    caught = error
caught
""",
        check="x.args == ('wrong', 3) and type(x.__cause__) is KeyError and x.__notes__ == ['a note'] "
        "and x.extra == [1]",
        keeps="equal",
        note=TRACE,
    ),
    Value(
        cls="ExceptionGroup",
        make="ExceptionGroup('both', [ValueError(1), KeyError(2)])",
        check="[type(e) for e in x.exceptions] == [ValueError, KeyError] and x.subgroup(KeyError)",
        keeps="equal",
        note=TRACE,
    ),
    Value(
        cls="OSError",
        make="class MineError(OSError):\n    def __init__(self, name):\n        super().__init__(2, 'none', name)\n"
        "        self.name = name\n\nMineError('f')",
        check="(x.errno, x.strerror, x.filename, x.name) == (2, 'none', 'f', 'f')",
        keeps="equal",
        note=f"of a class of the notebook; {TRACE}",
    ),
    Value(
        cls="ModuleNotFoundError",
        make="try:\n    import not_there\nexcept ImportError as error:\n    missing = error\nmissing",
        check="x.name == 'not_there' and str(x) == \"No module named 'not_there'\"",
        keeps="equal",
        note=TRACE,
    ),
    Value(
        cls="SystemExit",
        make="SystemExit(3)",
        check="x.code == 3",
        keeps="equal",
        note=TRACE,
    ),
    Value(
        cls="UnicodeDecodeError",
        make="UnicodeDecodeError('utf-8', b'a', 0, 1, 'why')",
        check="(x.encoding, x.object, x.end, x.reason) == ('utf-8', b'a', 1, 'why')",
        keeps="equal",
        note=TRACE,
    ),
    Value(
        cls="SyntaxError",
        make="SyntaxError('m', ('f.py', 3, 2, 'a b', 3, 4))",
        check="(x.lineno, x.offset, x.text, x.end_offset) == (3, 2, 'a b', 4)",
        keeps="equal",
        note=TRACE,
    ),
    Value(
        cls="traceback",
        make="(lambda e: e.__traceback__)(caught)",
        check="'in failing' in ''.join(traceback.format_tb(x)) and x.tb_frame.f_code.co_name == '<module>'",
        keeps="equal",
        note="it prints as it did, but its frames hold no variables",
    ),
    Value(
        cls="traceback.TracebackException",
        make="traceback.TracebackException.from_exception(caught)",
        check="''.join(x.format()).count('wrong') == 1 and 'failing' in ''.join(x.format())",
        keeps="exact",
        note="a traceback as text comes back",
    ),
    Value(
        cls="traceback.StackSummary",
        make="traceback.StackSummary.from_list([('f.py', 3, 'go', 'go()')])",
        check="x.format() == ['  File \"f.py\", line 3, in go\\n    go()\\n']",
        keeps="exact",
    ),
    Value(
        cls="logging.Logger",
        make="log = logging.getLogger('zoo.one')\nlog",
        check="x is logging.getLogger('zoo.one')",
        keeps="exact",
        note="the one that the process has",
    ),
    Value(
        cls="logging.Formatter",
        make="formatter = logging.Formatter('{levelname}: {message}', style='{')\nformatter",
        check="x.format(logging.LogRecord('n', 30, 'p', 1, 'm', (), None)) == 'WARNING: m'",
        keeps="exact",
    ),
    Value(
        cls="logging.StreamHandler",
        make="handler = logging.StreamHandler(sys.stderr)\nhandler.setFormatter(formatter)\nhandler",
        check="x.stream is sys.stderr and x.formatter is formatter and x.lock.acquire() and x.lock.release() is None",
        keeps="exact",
        note="writes to the new kernel's console",
    ),
    Value(
        cls="logging.FileHandler",
        make="logging.FileHandler('a.log')",
        check="x.baseFilename.endswith('a.log')",
        keeps="reported",
        note="an open file",
    ),
    Value(
        cls="logging.FileHandler",
        make="logging.FileHandler('b.log', delay=True)",
        check="x.baseFilename.endswith('b.log') and x.stream is None",
        keeps="exact",
        note="not opened yet",
    ),
    Value(
        cls="logging.LogRecord",
        make="logging.LogRecord('n', 20, 'p.py', 1, 'number %d', (3,), None)",
        check="x.getMessage() == 'number 3' and x.levelname == 'INFO'",
        keeps="exact",
    ),
    Value(
        cls="logging.LoggerAdapter",
        make="logging.LoggerAdapter(log, {'request': 1})",
        check="x.extra == {'request': 1} and x.logger is log",
        keeps="exact",
    ),
    Value(
        cls="logging.handlers.MemoryHandler",
        make="logging.handlers.MemoryHandler(5, target=handler)",
        check="x.target is handler and x.capacity == 5",
        keeps="exact",
    ),
    Value(
        cls="inspect.Signature",
        make="inspect.signature(lambda a, *, b=2: a)",
        check="str(x) == '(a, *, b=2)' and x.bind(1).args == (1,)",
        keeps="exact",
    ),
    Value(
        cls="inspect.Parameter",
        make="inspect.Parameter('a', inspect.Parameter.KEYWORD_ONLY)",
        check="x.default is inspect.Parameter.empty and x.kind.name == 'KEYWORD_ONLY'",
        keeps="exact",
    ),
    Value(
        cls="code",
        make="compile('1 + 2', '<zoo>', 'eval')",
        check="eval(x) == 3 and x.co_filename == '<zoo>'",
        keeps="exact",
    ),
    Value(
        cls="ast.Module",
        make="ast.parse('a = 1 + 2')",
        check="ast.unparse(x) == 'a = 1 + 2' and x.body[0].lineno == 1",
        keeps="exact",
    ),
    Value(cls="module", make="fractions", check="x is sys.modules['fractions']", keeps="exact"),
    Value(
        cls="module",
        make="types.ModuleType('made_here')",
        check="x.__name__ == 'made_here' and x.__spec__ is None",
        keeps="exact",
        note="made at run time",
    ),
    Value(cls="builtin_function_or_method", make="len", check="x is len", keeps="exact"),
    Value(
        cls="method",
        make="class Dog:\n    def bark(self):\n        return self\n\ndog = Dog()\ndog.bark",
        check="x() is dog",
        keeps="exact",
        note="bound to the object that another variable holds",
    ),
    Value(
        cls="frame",
        make="sys._getframe()",
        check="x.f_code",
        keeps="reported",
        note="it is part of the lost kernel",
    ),
    Value(
        cls="importlib.metadata.PathDistribution",
        make="importlib.metadata.distribution('ipykernel')",
        check="x.metadata['Name'] == 'ipykernel'",
        keeps="exact",
    ),
    Value(
        cls="importlib.machinery.ModuleSpec",
        make="importlib.util.find_spec('fractions')",
        check="x.name == 'fractions'",
        keeps="exact",
    ),
    Value(
        cls="unittest.mock.MagicMock",
        make="(lambda mock: [mock.part.go(), mock][1])(unittest.mock.MagicMock(return_value=3))",
        check="x() == 3",
        keeps="reported",
        note="one that has been used refers to itself in a way that does not load",
    ),
    Value(
        cls="unittest.case.TestCase",
        make="class Case(unittest.TestCase):\n    def test_one(self):\n        self.assertEqual(1, 1)\n\n"
        "Case('test_one')",
        check="x.run().wasSuccessful()",
        keeps="exact",
    ),
    Value(
        cls="timeit.Timer",
        make="timeit.Timer('1 + 1')",
        check="x.timeit(1) >= 0",
        keeps="exact",
    ),
    Value(
        cls="cProfile.Profile",
        make="cProfile.Profile()",
        check="x.enable() or x.disable() or True",
        keeps="reported",
        note="what it measured is inside the interpreter; pstats.Stats can be kept",
    ),
    Value(
        cls="codecs.CodecInfo",
        make="codecs.lookup('utf-8')",
        check="x.name == 'utf-8'",
        keeps="reported",
        note="codecs.lookup gives it again",
    ),
    Value(
        cls="codecs.IncrementalDecoder",
        make="decoder = codecs.getincrementaldecoder('utf-8')()\ndecoder.decode(b'\\xc3')\ndecoder",
        check="x.decode(b'\\xbc') == 'ü'",
        keeps="exact",
        note="in the middle of a character",
    ),
    Value(
        cls="warnings.WarningMessage",
        make="warnings.WarningMessage(UserWarning('a'), UserWarning, 'f.py', 3)",
        check="str(x.message) == 'a' and x.lineno == 3",
        keeps="exact",
    ),
    Value(
        cls="type",
        make="import abc\n\nclass Shape(abc.ABC):\n    @abc.abstractmethod\n    def area(self): ...\n\n"
        "Shape.register(int)\nShape",
        check="issubclass(int, x) and x.__abstractmethods__ == {'area'} "
        "and 'abstractmethod' in inspect.getsource(x.area)",
        keeps="exact",
        note="an abstract class of the notebook, with what is registered and its source",
    ),
]
