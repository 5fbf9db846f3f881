"""Values of the standard library: containers, iterators, references, definitions."""

from __future__ import annotations

from durable_nb.testing.zoo import STANDARD, Value

LIBRARY = STANDARD
SETUP = """
import collections
import contextlib
import contextvars
import dataclasses
import enum
import functools
import graphlib
import itertools
import operator
import types
import typing
import weakref
"""
VALUES = [
    Value(
        cls="collections.deque",
        make="d1 = collections.deque([1, 2, 3], maxlen=3)\nd1",
        check="[x.append(4), list(x)][1] == [2, 3, 4]",
        keeps="exact",
        note="with its limit",
    ),
    Value(
        cls="collections.Counter",
        make="collections.Counter('abca')",
        check="x.most_common(1) == [('a', 2)] and x['no'] == 0",
        keeps="exact",
    ),
    Value(
        cls="collections.OrderedDict",
        make="ordered = collections.OrderedDict(b=1, a=2)\nordered.move_to_end('b')\nordered",
        check="list(x) == ['a', 'b']",
        keeps="exact",
    ),
    Value(
        cls="collections.defaultdict",
        make="tree = collections.defaultdict(lambda: [0])\ntree['a'].append(1)\ntree",
        check="x['a'] == [0, 1] and x['b'] == [0]",
        keeps="exact",
        note="with the function that gives its defaults",
    ),
    Value(
        cls="collections.ChainMap",
        make="over, under = {'a': 1}, {'a': 2, 'b': 3}\nchained = collections.ChainMap(over, under)\nchained",
        check="x['a'] == 1 and x['b'] == 3 and x.maps[1] is under",
        keeps="exact",
        note="still a view of its dictionaries",
    ),
    Value(
        cls="collections.UserDict",
        make="""
class Upper(collections.UserDict):
    def __setitem__(self, key, value):
        super().__setitem__(key.upper(), value)

Upper(a=1)
""",
        check="[x.__setitem__('b', 2), dict(x)][1] == {'A': 1, 'B': 2}",
        keeps="exact",
    ),
    Value(cls="collections.UserList", make="collections.UserList([1])", check="x + [2] == [1, 2]", keeps="exact"),
    Value(cls="collections.UserString", make="collections.UserString('a')", check="x + 'b' == 'ab'", keeps="exact"),
    Value(
        cls="tuple",
        make="Point = collections.namedtuple('Point', 'x y', defaults=[0])\nPoint(1)",
        check="x.y == 0 and type(x) is Point and x._replace(x=2) == (2, 0)",
        keeps="exact",
        note="a named one",
    ),
    Value(
        cls="types.SimpleNamespace",
        make="types.SimpleNamespace(a=1, b=[2])",
        check="x.a == 1 and x.b == [2]",
        keeps="exact",
    ),
    Value(
        cls="types.MappingProxyType",
        make="behind = {'a': 1}\ntypes.MappingProxyType(behind)",
        check="[behind.update(b=2), x['b']][1] == 2",
        keeps="exact",
        note="still a view of its dictionary",
    ),
    Value(
        cls="dict_keys",
        make="shown = {'a': 1}\nshown.keys()",
        check="[shown.update(z=1), 'z' in x][1]",
        keeps="exact",
        note="still a view of its dictionary",
    ),
    Value(
        cls="odict_items",
        make="ordered.items()",
        check="[ordered.update(c=3), list(x)][1] == [('a', 2), ('b', 1), ('c', 3)]",
        keeps="exact",
        note="still a view of its dictionary",
    ),
    Value(cls="slice", make="slice(1, None, 2)", check="[0, 1, 2, 3][x] == [1, 3]", keeps="exact"),
    Value(cls="range", make="range(3, 9, 2)", check="list(x) == [3, 5, 7]", keeps="exact"),
    Value(
        cls="dict_itemiterator",
        make="places = {'a': 1, 'b': 2}\nsteps = iter(places.items())\nnext(steps)\nsteps",
        check="places.update(b=5) is None and list(x) == [('b', 5)]",
        keeps="exact",
        note="goes on over its dictionary",
    ),
    Value(
        cls="odict_iterator",
        make="twin = collections.OrderedDict(a=1, b=2)\nback = reversed(twin.values())\nnext(back)\nback",
        check="list(x) == [1]",
        keeps="exact",
    ),
    Value(
        cls="set_iterator",
        make="iter({1})",
        check="list(x) == [1]",
        keeps="equal",
        note="goes on over the elements that are left; where their order is another now, apart from its set",
    ),
    Value(
        cls="itertools.pairwise",
        make="pairs = itertools.pairwise([1, 2, 3])\nnext(pairs)\npairs",
        check="list(x) == [(2, 3)]",
        keeps="equal",
        note="what it has taken already is in front of the iterator it holds, in an itertools.chain",
    ),
    Value(
        cls="super",
        make="class Above:\n    def who(self): return 'above'\nclass Below(Above):\n"
        "    def who(self): return 'below'\nbelow = Below()\nsuper(Below, below)",
        check="x.who() == 'above' and x.__self__ is below",
        keeps="exact",
    ),
    Value(
        cls="list_iterator",
        make="numbers = [1, 2, 3]\nposition = iter(numbers)\nnext(position)\nposition",
        check="[numbers.append(4), list(x)][1] == [2, 3, 4]",
        keeps="exact",
        note="where it was, over the same list",
    ),
    Value(
        cls="itertools.count",
        make="count = itertools.count(5, 2)\nnext(count)\ncount",
        check="next(x) == 7",
        keeps="exact",
        note="where it was",
    ),
    Value(
        cls="itertools.cycle",
        make="cycle = itertools.cycle('abc')\nnext(cycle)\ncycle",
        check="[next(x) for _ in range(4)] == ['b', 'c', 'a', 'b']",
        keeps="exact",
        note="where it was",
    ),
    Value(
        cls="itertools.chain",
        make="chain = itertools.chain([1, 2], [3])\nnext(chain)\nchain",
        check="list(x) == [2, 3]",
        keeps="exact",
        note="where it was",
    ),
    Value(
        cls="itertools.islice",
        make="islice = itertools.islice(iter([1, 2, 3, 4]), 1, None, 2)\nnext(islice)\nislice",
        check="list(x) == [4]",
        keeps="exact",
        note="where it was",
    ),
    Value(
        cls="itertools.product",
        make="product = itertools.product('ab', [1, 2])\nnext(product)\nproduct",
        check="next(x) == ('a', 2)",
        keeps="exact",
        note="where it was",
    ),
    Value(cls="zip", make="zip([1, 2], 'ab')", check="list(x) == [(1, 'a'), (2, 'b')]", keeps="exact"),
    Value(cls="map", make="map(str, [1, 2])", check="list(x) == ['1', '2']", keeps="exact"),
    Value(cls="enumerate", make="enumerate('ab', 1)", check="list(x) == [(1, 'a'), (2, 'b')]", keeps="exact"),
    Value(cls="list_reverseiterator", make="reversed([1, 2])", check="list(x) == [2, 1]", keeps="exact"),
    Value(cls="filter", make="filter(None, [0, 1])", check="list(x) == [1]", keeps="exact"),
    Value(
        cls="generator",
        make="(n for n in [1, 2])",
        check="next(x) == 1",
        keeps="reported",
        note="its frame is in the lost kernel",
    ),
    Value(
        cls="functools.partial",
        make="basis = []\nfunctools.partial(basis.append, 1)",
        check="[x(), basis][1] == [1]",
        keeps="exact",
        note="bound to the object that another variable holds",
    ),
    Value(
        cls="functools.partialmethod",
        make="functools.partialmethod(setattr, 'a')",
        check="x.func is setattr and x.args == ('a',)",
        keeps="exact",
    ),
    Value(
        cls="functools._lru_cache_wrapper",
        make="""
calls = []

@functools.lru_cache(maxsize=4)
def cached(n):
    calls.append(n)
    return n * 2

cached(3)
cached
""",
        check="[x.cache_info()[1:], x(3), calls] == [(1, 4, 1), 6, [3]] and x(4) == 8 and calls == [3, 4]",
        keeps="exact",
        note="with what it remembers, in the order of use",
    ),
    Value(
        cls="function",
        make="""
@functools.singledispatch
def shown_as(value):
    return 'any'

@shown_as.register
def _(value: int):
    return 'int'

shown_as
""",
        check="(x(1), x('')) == ('int', 'any')",
        keeps="exact",
        note="of functools.singledispatch, with what is registered",
    ),
    Value(
        cls="function",
        make="""
def counter():
    number = 0

    def up():
        nonlocal number
        number += 1
        return number

    return up

up = counter()
up()
up
""",
        check="x() == 2",
        keeps="exact",
        note="a closure, with what it closes over",
    ),
    Value(cls="operator.itemgetter", make="operator.itemgetter(1, 0)", check="x('ab') == ('b', 'a')", keeps="exact"),
    Value(cls="operator.attrgetter", make="operator.attrgetter('real')", check="x(3) == 3", keeps="exact"),
    Value(
        cls="operator.methodcaller",
        make="operator.methodcaller('split', ',')",
        check="x('a,b') == ['a', 'b']",
        keeps="exact",
    ),
    Value(
        cls="enum.Enum",
        make="""
class Color(enum.Enum):
    RED = 1
    BLUE = 2

Color.RED
""",
        check="x is Color.RED and Color(2) is Color.BLUE",
        keeps="exact",
        note="a member of a class of the notebook",
    ),
    Value(
        cls="enum.Flag",
        make="""
class Right(enum.Flag):
    READ = enum.auto()
    WRITE = enum.auto()

Right.READ | Right.WRITE
""",
        check="Right.READ in x and x == Right(3)",
        keeps="exact",
    ),
    Value(
        cls="type",
        make="""
@dataclasses.dataclass(frozen=True, slots=True, order=True)
class Point3:
    x: int
    y: int = 2
    tags: list = dataclasses.field(default_factory=list)

Point3
""",
        check="x(1) < x(2) and [f.name for f in dataclasses.fields(x)] == ['x', 'y', 'tags'] and x.__slots__",
        keeps="exact",
        note="a dataclass of the notebook",
    ),
    Value(
        cls="object",
        make="Point3(1)",
        check="type(x) is Point3 and dataclasses.replace(x, x=5).x == 5",
        keeps="exact",
        note="an instance of a frozen dataclass with slots",
    ),
    Value(
        cls="object",
        make="class Absent:\n    pass\n\nABSENT = object()\nABSENT",
        check="x is ABSENT",
        keeps="exact",
        note="a sentinel",
    ),
    Value(
        cls="weakref.ref",
        make="class Node:\n    pass\n\nnode = Node()\nweakref.ref(node)",
        check="x() is node",
        keeps="exact",
        note="weakref.ReferenceType; the object is the one that another variable holds",
    ),
    Value(
        cls="weakref.ProxyType",
        make="weakref.proxy(node)",
        check="[setattr(node, 'a', 1), x.a][1] == 1",
        keeps="exact",
    ),
    Value(
        cls="weakref.WeakMethod",
        make="class Speaker:\n    def speak(self):\n        return 'hi'\n\nspeaker = Speaker()\n"
        "weakref.WeakMethod(speaker.speak)",
        check="x()() == 'hi' and x().__self__ is speaker",
        keeps="exact",
    ),
    Value(
        cls="weakref.WeakValueDictionary",
        make="weak = weakref.WeakValueDictionary(a=node)\nweak",
        check="x['a'] is node",
        keeps="exact",
    ),
    Value(
        cls="weakref.WeakKeyDictionary",
        make="notes = weakref.WeakKeyDictionary()\nnotes[node] = [1]\nnotes",
        check="x[node] == [1]",
        keeps="exact",
    ),
    Value(cls="weakref.WeakSet", make="weakref.WeakSet([node])", check="node in x", keeps="exact"),
    Value(
        cls="weakref.finalize",
        make="weakref.finalize(node, print, 'gone')",
        check="x.alive",
        keeps="reported",
        note="it acts when an object of the lost kernel goes",
    ),
    Value(
        cls="graphlib.TopologicalSorter",
        make="sorter = graphlib.TopologicalSorter({'b': {'a'}, 'c': {'b'}})\nsorter.prepare()\nsorter",
        check="[x.get_ready(), x.done('a'), x.get_ready()][2] == ('b',)",
        keeps="exact",
        note="in the middle of the work",
    ),
    Value(
        cls="contextlib.ExitStack",
        make="left = []\nstack = contextlib.ExitStack()\nstack.callback(left.append, 1)\nstack",
        check="[x.close(), left][1] == [1]",
        keeps="exact",
        note="with what it will call",
    ),
    Value(
        cls="contextlib.nullcontext",
        make="contextlib.nullcontext(3)",
        check="x.__enter__() == 3",
        keeps="exact",
    ),
    Value(
        cls="contextlib.suppress",
        make="contextlib.suppress(KeyError)",
        check="x.__exit__(KeyError, KeyError(), None)",
        keeps="exact",
    ),
    Value(
        cls="contextvars.ContextVar",
        make="contextvars.ContextVar('request', default=1)",
        check="x.get() == 1 and x.name == 'request'",
        keeps="exact",
    ),
    Value(
        cls="contextvars.Context",
        make="contextvars.Context()",
        check="x.run(int, '3') == 3",
        keeps="reported",
        note="it belongs to the flow of the lost kernel",
    ),
    Value(
        cls="typing.TypeVar",
        make="T = typing.TypeVar('T', bound=int)\nT",
        check="x is T and x.__bound__ is int",
        keeps="exact",
    ),
    Value(
        cls="typing.NewType",
        make="UserId = typing.NewType('UserId', int)\nUserId",
        check="x is UserId and x(3) == 3 and x.__supertype__ is int",
        keeps="exact",
    ),
    Value(
        cls="type",
        make="""
class Stack(typing.Generic[T]):
    items: list[T]

Stack
""",
        check="x[int].__origin__ is x and x.__parameters__ == (T,)",
        keeps="exact",
        note="a generic class of the notebook",
    ),
    Value(
        cls="types.GenericAlias",
        make="dict[str, list[int]]",
        check="x == dict[str, list[int]]",
        keeps="exact",
    ),
    Value(cls="types.UnionType", make="int | None", check="x == (int | None)", keeps="exact"),
    Value(
        cls="type",
        make="class Film(typing.TypedDict, total=False):\n    name: str\n\nFilm",
        check="x.__optional_keys__ == {'name'} and x(name='a') == {'name': 'a'}",
        keeps="exact",
        note="a typed dictionary of the notebook",
    ),
    Value(
        cls="property",
        make="property(lambda self: 3, doc='three')",
        check="x.__get__(1) == 3 and x.__doc__ == 'three'",
        keeps="exact",
    ),
]
