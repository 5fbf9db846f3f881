"""Rows of the table of process state: Python itself, its standard library, and what cells change in other modules.

Used by `process_kinds` alone; data, nothing else.
"""

from __future__ import annotations

from durable_nb.testing.process_kinds import REPORTED, RESTORED, Kind

__all__ = ["PYTHON"]

_P = "Python and its standard library"
_C = "Changes that cells make to modules and classes"
_S = "Streams of the process"
_A = "Event loop"

PYTHON: tuple[Kind, ...] = (
    Kind(
        group=_P,
        what="the stream of `random`",
        promise=RESTORED,
        makes="import random\nrandom.seed(7)\nmine = random.Random(7).random()",
        holds="(lambda state: (random.random() == mine, random.setstate(state))[0])(random.getstate())",
    ),
    Kind(
        group=_P,
        what="working folder",
        promise=RESTORED,
        makes="import os\nos.makedirs('sub', exist_ok=True)\nos.chdir('sub')",
        holds="os.path.basename(os.getcwd()) == 'sub'",
    ),
    Kind(
        group=_P,
        what="`sys.path`",
        promise=RESTORED,
        makes="import sys\nsys.path.insert(0, '/opt/mine')",
        holds="sys.path[0] == '/opt/mine'",
    ),
    Kind(
        group=_P,
        what="`sys.argv`",
        promise=RESTORED,
        makes="import sys\nsys.argv = ['prog', '--fast']",
        holds="sys.argv == ['prog', '--fast']",
    ),
    Kind(
        group=_P,
        what="limits of the interpreter: recursion, thread switching, digits of numbers",
        promise=RESTORED,
        makes="import sys\nsys.setrecursionlimit(4321)\nsys.setswitchinterval(0.004)\nsys.set_int_max_str_digits(9999)",
        holds="(sys.getrecursionlimit(), round(sys.getswitchinterval(), 4), sys.get_int_max_str_digits())"
        " == (4321, 0.004, 9999)",
    ),
    Kind(
        group=_P,
        what="the garbage collector: on or off, thresholds",
        promise=RESTORED,
        makes="import gc\ngc.disable()\ngc.set_threshold(555, 11, 12)",
        holds="(gc.isenabled(), gc.get_threshold()) == (False, (555, 11, 12))",
    ),
    Kind(
        group=_P,
        what="callbacks of the garbage collector",
        promise=RESTORED,
        makes="import gc\ndef on_gc(phase, info):\n    pass\ngc.callbacks.append(on_gc)",
        holds="on_gc in gc.callbacks",
    ),
    Kind(
        group=_P,
        what="`tracemalloc` tracing and its depth",
        promise=RESTORED,
        makes="import tracemalloc\ntracemalloc.start(3)",
        holds="(tracemalloc.is_tracing(), tracemalloc.get_traceback_limit()) == (True, 3)",
        note="what was traced before is gone",
    ),
    Kind(
        group=_P,
        what="`faulthandler`",
        promise=RESTORED,
        makes="import faulthandler\nfaulthandler.disable()",
        holds="faulthandler.is_enabled() is False",
        note="switched on, it writes to the kernel's own standard error",
    ),
    Kind(
        group=_P,
        what="`umask`",
        promise=RESTORED,
        makes="import os\n_old = os.umask(0o027)",
        holds="int(next(l for l in open('/proc/self/status') if l.startswith('Umask')).split()[1], 8) == 0o027",
    ),
    Kind(
        group=_P,
        what="default timeout of sockets",
        promise=RESTORED,
        makes="import socket\nsocket.setdefaulttimeout(12.5)",
        holds="socket.getdefaulttimeout() == 12.5",
    ),
    Kind(
        group=_P,
        what="`csv.field_size_limit`",
        promise=RESTORED,
        makes="import csv\n_old = csv.field_size_limit(10**7)",
        holds="csv.field_size_limit() == 10**7",
    ),
    Kind(
        group=_P,
        what="stack size of new threads",
        promise=RESTORED,
        makes="import threading\n_old = threading.stack_size(1 << 20)",
        holds="threading.stack_size(1 << 20) == 1 << 20",
    ),
    Kind(
        group=_P,
        what="locale",
        promise=RESTORED,
        makes="import locale\n_old = locale.setlocale(locale.LC_NUMERIC, 'C.UTF-8')",
        holds="locale.setlocale(locale.LC_NUMERIC) == 'C.UTF-8'",
    ),
    Kind(
        group=_P,
        what="decimal context",
        promise=RESTORED,
        makes="import decimal\ndecimal.getcontext().prec = 7\ndecimal.getcontext().traps[decimal.Inexact] = True",
        holds="(decimal.getcontext().prec, decimal.getcontext().traps[decimal.Inexact]) == (7, True)",
    ),
    Kind(
        group=_P,
        what="warning filters, also with warnings of the notebook",
        promise=RESTORED,
        makes="import warnings\nclass MyWarning(UserWarning):\n    pass\nwarnings.simplefilter('error', MyWarning)\n"
        "warnings.filterwarnings('ignore', message='old', category=DeprecationWarning)",
        holds="any(f[2] is MyWarning and f[0] == 'error' for f in warnings.filters)"
        " and any(f[1] is not None and getattr(f[1], 'pattern', '') == 'old' for f in warnings.filters)",
    ),
    Kind(
        group=_P,
        what="how warnings are shown: `warnings.showwarning`, `formatwarning`, `logging.captureWarnings`",
        promise=RESTORED,
        makes="import warnings, logging\ndef short(message, category, *rest, **more):\n    return f'W: {message}'\n"
        "warnings.formatwarning = short\nlogging.captureWarnings(True)",
        holds="warnings.formatwarning is short and warnings.showwarning is logging._showwarning"
        " and logging._warnings_showwarning is not None",
    ),
    Kind(
        group=_P,
        what="logging: levels, propagation, switched-off loggers, `logging.disable`",
        promise=RESTORED,
        makes="import logging\nlogging.getLogger().setLevel(15)\nlogging.getLogger('asyncio').setLevel(35)\n"
        "_l = logging.getLogger('mine')\n_l.propagate = False\n_l.disabled = True\nlogging.disable(5)",
        holds="(logging.getLogger().level, logging.getLogger('asyncio').level, logging.getLogger('mine').propagate,"
        " logging.getLogger('mine').disabled, logging.root.manager.disable) == (15, 35, False, True, 5)",
    ),
    Kind(
        group=_P,
        what="logging: handlers to the console, with their formats and filters, also on loggers of libraries",
        promise=RESTORED,
        makes="import logging, sys\nclass Only(logging.Filter):\n    def filter(self, record):\n        return True\n"
        "class Fancy(logging.Formatter):\n    def format(self, record):\n        return 'fancy ' + record.msg\n"
        "_h = logging.StreamHandler(sys.stdout)\n_h.setFormatter(Fancy('%(message)s'))\n_h.addFilter(Only())\n"
        "logging.getLogger('json').addHandler(_h)\ndel _h\n"
        "logging.getLogger('app').addHandler(logging.StreamHandler())\nlogging.getLogger('app').addFilter(Only('x'))",
        holds="(lambda h: type(h.formatter) is Fancy and type(h.filters[0]) is Only and h.stream is sys.stdout)"
        "(logging.getLogger('json').handlers[0]) and len(logging.getLogger('app').handlers) == 1"
        " and type(logging.getLogger('app').filters[0]) is Only",
    ),
    Kind(
        group=_P,
        what="logging: handlers of the notebook's own classes",
        promise=RESTORED,
        makes="import logging\nclass Keep(logging.Handler):\n    def __init__(self):\n        super().__init__()\n"
        "        self.seen = []\n    def emit(self, record):\n        self.seen.append(record.getMessage())\n"
        "keep = Keep()\nlogging.getLogger('kept').addHandler(keep)\nlogging.getLogger('kept').warning('one')",
        holds="logging.getLogger('kept').handlers[0] is keep and keep.seen[:1] == ['one']",
    ),
    Kind(
        group=_P,
        what="logging: handlers that write to files, sockets or other streams",
        promise=REPORTED,
        makes="import logging\nlogging.getLogger('json').addHandler(logging.FileHandler('app.log', delay=True))",
        reported=("logging",),
        note="files are never opened again",
    ),
    Kind(
        group=_P,
        what="`logging.setLoggerClass`, `logging.setLogRecordFactory`",
        promise=RESTORED,
        makes="import logging\nclass MyLogger(logging.Logger):\n    pass\nlogging.setLoggerClass(MyLogger)\n"
        "def record(*a, **k):\n    return logging.LogRecord(*a, **k)\nlogging.setLogRecordFactory(record)",
        holds="logging.getLoggerClass() is MyLogger and logging.getLogRecordFactory() is record",
    ),
    Kind(
        group=_P,
        what="`sys.unraisablehook`, `threading.excepthook`, `sys.breakpointhook`",
        promise=RESTORED,
        makes="import sys, threading\nsys.unraisablehook = lambda u: None\ndef on_thread(args):\n    pass\n"
        "threading.excepthook = on_thread\nsys.breakpointhook = on_thread",
        holds="sys.unraisablehook.__name__ == '<lambda>' and threading.excepthook is on_thread"
        " and sys.breakpointhook is on_thread",
        note="here and wherever a function hangs: one that passes on to what was there before is reported by name",
    ),
    Kind(
        group=_P,
        what="signal handlers",
        promise=RESTORED,
        makes="import signal\ndef on_signal(n, frame):\n    pass\n_old = signal.signal(signal.SIGUSR1, on_signal)\n"
        "_old = signal.signal(signal.SIGALRM, signal.SIG_IGN)",
        holds="signal.getsignal(signal.SIGUSR1) is on_signal and signal.getsignal(signal.SIGALRM) is signal.SIG_IGN",
        note="except of SIGINT, which the kernel sets anew around every cell",
    ),
    Kind(
        group=_P,
        what="timers of `signal.setitimer` and `alarm`",
        promise=REPORTED,
        makes="import signal\n_old = signal.setitimer(signal.ITIMER_PROF, 5000)",
        reported=("signal.setitimer",),
    ),
    Kind(
        group=_P,
        what="functions registered with `atexit`",
        promise=REPORTED,
        makes="import atexit\ndef bye():\n    pass\n_old = atexit.register(bye)",
        reported=("atexit.register",),
    ),
    Kind(
        group=_A,
        what="debug mode of the asyncio loop",
        promise=RESTORED,
        makes="import asyncio\nasyncio.get_event_loop().set_debug(True)",
        holds="asyncio.get_event_loop().get_debug() is True",
    ),
    Kind(
        group=_A,
        what="asyncio policy",
        promise=RESTORED,
        makes="import asyncio\nclass Policy(asyncio.DefaultEventLoopPolicy):\n    pass\n"
        "asyncio.set_event_loop_policy(Policy())",
        holds="type(asyncio.get_event_loop_policy()) is Policy",
        note="one whose class can be called without arguments",
    ),
    Kind(
        group=_P,
        what="environment variables",
        promise=REPORTED,
        makes="import os\nos.environ['MY_TOKEN'] = 'secret'",
        reported=("os.environ[MY_TOKEN]",),
        note="by name, never by value; the ones that `DURABLE_NB_ENV` names are stored and restored",
    ),
    Kind(
        group=_P,
        what="environment variables named in `DURABLE_NB_ENV`, and with `TZ` the time zone",
        promise=RESTORED,
        makes="import os, time\nos.environ['MY_FLAG'] = 'on'\nos.environ['TZ'] = 'Asia/Tokyo'\ntime.tzset()",
        holds="os.environ.get('MY_FLAG') == 'on' and time.timezone == -32400",
    ),
    Kind(
        group=_P,
        what="`copyreg` reducers of the notebook",
        promise=RESTORED,
        makes="import copyreg\nclass Dot:\n    pass\ndef reduce_dot(d):\n    return (Dot, ())\n"
        "copyreg.pickle(Dot, reduce_dot)",
        holds="copyreg.dispatch_table.get(Dot) is reduce_dot",
    ),
    Kind(
        group=_P,
        what="codecs and error handlers registered with `codecs`",
        promise=REPORTED,
        makes="import codecs\ndef find(name):\n    return None\ncodecs.register(find)",
        reported=("codecs.register",),
    ),
    Kind(
        group=_P,
        what="additions to `builtins`, and built-in names that were replaced",
        promise=RESTORED,
        makes="import builtins\nbuiltins.answer = 42\ndef my_sum(x):\n    return 0\nbuiltins.my_sum = my_sum",
        holds="__import__('builtins').answer == 42 and __import__('builtins').my_sum is my_sum",
    ),
    Kind(
        group=_C,
        what="attributes that a cell adds to a module or class of a library",
        promise=RESTORED,
        makes="import fractions, json\ndef halve(self):\n    return self / 2\nfractions.Fraction.halve = halve\n"
        "json.loads_twice = lambda s: json.loads(json.loads(s))\nclass Extra:\n    pass\njson.Extra = Extra",
        holds="fractions.Fraction.halve is halve and json.loads_twice('\"1\"') == 1 and json.Extra is Extra",
    ),
    Kind(
        group=_C,
        what="the same for modules whose own state is listed above",
        promise=RESTORED,
        makes="import logging, sys\nlogging.TRACE = 5\ndef trace(self, text):\n    self.log(logging.TRACE, text)\n"
        "logging.Logger.trace = trace\nsys.my_state = {'a': 1}\nif False:\n    logging.NEVER = 1",
        holds="logging.TRACE == 5 and logging.Logger.trace is trace and sys.my_state == {'a': 1}",
    ),
    Kind(
        group=_C,
        what="methods that a cell adds to the classes of pandas",
        promise=RESTORED,
        makes="import pandas as pd\nfrom pandas import Series\npd.DataFrame.twice = lambda self: self * 2\n"
        "def thrice(self):\n    return self * 3\nSeries.thrice = thrice\npd.our_version = 3",
        holds="pd.DataFrame({'a': [1]}).twice().a[0] == 2 and Series.thrice is thrice and pd.our_version == 3",
        needs=("pandas",),
    ),
    Kind(
        group=_C,
        what="plain values that a cell sets in a module or class of a library",
        promise=RESTORED,
        makes="import textwrap, tempfile\ntextwrap.TextWrapper.fix_sentence_endings_re = 'x'\n"
        "tempfile.tempdir = '/tmp'",
        holds="textwrap.TextWrapper.fix_sentence_endings_re == 'x' and tempfile.tempdir == '/tmp'",
    ),
    Kind(
        group=_C,
        what="functions and classes of a library that a cell replaces",
        promise=REPORTED,
        makes="import json\ndef default(self, o):\n    return str(o)\njson.JSONEncoder.default = default",
        holds="json.JSONEncoder.default is default",
        reported=("json.encoder.JSONEncoder.default",),
        note="put back by itself, the function that it replaced would be lost to the cell that wraps it",
    ),
    Kind(
        group=_C,
        what="attributes that a cell adds to a function of a library",
        promise=RESTORED,
        makes="import heapq\nfrom textwrap import fill\nfill.our_width = 40\nheapq.merge.our_note = {'a': fill}",
        holds="fill.our_width == 40 and heapq.merge.our_note['a'] is fill",
    ),
    Kind(
        group=_C,
        what="defaults and code of a library's function that a cell sets",
        promise=REPORTED,
        makes="import colorsys, shlex\nfrom glob import glob\n"
        "glob.__kwdefaults__ = {**glob.__kwdefaults__, 'recursive': 1}\n"
        "shlex.split.__defaults__ = (True, True)\ndef rgb_to_hsv(r, g, b):\n    return 5\n"
        "colorsys.rgb_to_hsv.__code__ = rgb_to_hsv.__code__",
        holds="glob.__kwdefaults__['recursive'] and shlex.split.__defaults__ == (True, True) "
        "and colorsys.rgb_to_hsv(1, 1, 1) == 5",
        reported=("colorsys.rgb_to_hsv.__code__", "glob.glob.__kwdefaults__", "shlex.split.__defaults__"),
    ),
    Kind(
        group=_C,
        what="what a cell deletes in a module or class of a library",
        promise=REPORTED,
        makes="import textwrap\ndel textwrap.shorten",
        holds="not hasattr(textwrap, 'shorten')",
        reported=("textwrap.shorten",),
    ),
    Kind(
        group=_C,
        what="classes of the notebook registered with an abstract class",
        promise=RESTORED,
        makes="import collections.abc\nclass Stack:\n    pass\n_old = collections.abc.Sequence.register(Stack)\n"
        "@collections.abc.Hashable.register\nclass Stack2:\n    pass",
        holds="issubclass(Stack, collections.abc.Sequence)",
    ),
    Kind(
        group=_C,
        what="functions of the notebook registered with a `singledispatch` of a library",
        promise=RESTORED,
        makes="from importlib.resources import as_file\nclass Own:\n    pass\n"
        "@as_file.register\ndef _(own: Own):\n    return 'own'",
        holds="as_file(Own()) == 'own'",
    ),
    Kind(
        group=_C,
        what="attributes of the notebook's own `.py` files, plain values",
        promise=RESTORED,
        makes="from pathlib import Path\nPath('helper.py').write_text('LEVEL = 1\\nITEMS = []\\n')\n"
        "import sys; sys.path.insert(0, str(Path('.').resolve()))\nimport helper\nhelper.LEVEL = 3",
        holds="helper.LEVEL == 3",
    ),
    Kind(
        group=_S,
        what="`sys.stdout`, `stderr`, `stdin` led into an object that a variable holds",
        promise=RESTORED,
        makes="import sys\nclass Tee:\n    def __init__(self):\n        self.text = ''\n    def write(self, t):\n"
        "        self.text += t\n        return len(t)\n"
        "    def flush(self):\n        pass\ntee = Tee()\nsys.stderr = tee",
        holds="sys.stderr is tee and type(tee) is Tee",
    ),
    Kind(
        group=_S,
        what="`sys.stdout`, `stderr`, `stdin` led into a file open for writing",
        promise=REPORTED,
        makes="import sys\nsys.stdin = open('printed.txt', 'w')",
        reported=("sys.stdin",),
        note="files are never opened for writing again",
    ),
)
