"""The statements of random notebooks without classes: what a line makes and needs, one template per block.

Read by `grammar`. A block is `kind of $n[, kind of $m] | statement`; lines without a kind go on with it. `$n` and `$m`
are new variables, `$C` a class and `$F` a function that may be there already; `$list` is a variable that holds a list,
`$any` any variable, `$atom` a literal; `$any2` is another choice than `$any`. `-` makes nothing, `!any` takes a name
away. The first block that makes a kind is how one is made where it is needed and not there.
"""

from __future__ import annotations

__all__ = ["ATOMS", "DATA", "FUNCTIONS", "PREAMBLE", "REPORTED"]

PREAMBLE = """\
import abc, copy, dataclasses, enum, functools, itertools, random, threading, types, typing, weakref
from collections import Counter, OrderedDict, defaultdict, deque
import numpy as np, pandas as pd
random.seed(1); np.random.seed(1)"""

ATOMS = (
    "0",
    "1",
    "'k'",
    "None",
    "'text'",
    "2.5",
    "(1, 'x')",
    "b'raw'",
    "10**20",
    "True",
    "float('nan')",
    "frozenset({1})",
)

DATA = """
list     | $n = []
list     | $n = [$any, $atom]
list     | $n = [$any, $any2, $any3]
list     | $n = $list
list     | $n = $list[:]
list     | $n = [$list] * 2
-        | $list.append($any)
-        | $list.append($list2)
-        | $list.insert(0, $atom)
-        | $list[:1] = [$any]
-        | $list += [$atom]
-        | $list.reverse()
-        | del $list[:1]
-        | for i in range(3):
         |     $list.append(i)
dict     | $n = {'k': $any}
dict     | $n = dict(x=$any, y=$any2)
dict     | $n = {i: [i] for i in range(3)}
-        | $dict['k'] = $any
-        | $dict[$atom] = $any
-        | $dict.pop(next(iter($dict)), None)
-        | $dict['self'] = $dict
-        | $dict.setdefault('l', []).append($any)
-        | $dict['k'] = $dict.pop('k', 0)
set      | $n = {1, 'x', (2, 3)}
set      | $n = {$inst, $atom}
-        | $set.add($atom)
-        | $set.add($key)
-        | $set.discard(1)
dict     | $n = {$inst: $any}
tup      | $n = ($any, $atom)
tup      | $n = ($atom, [$any])
-        | $tup[1].append($atom)
val      | $n = $any
val      | $n, $m = $any, $any2
val      | $n = $atom
val      | $n = $list[0]
val      | $n = $dict['k']
-        | $n = $m = $any
-        | globals()['$n'] = $any
!any     | del $any
od       | $n = OrderedDict(a=$any, b=$atom)
-        | $od.move_to_end('a')
-        | $od['c'] = $any
dd       | $n = defaultdict(list)
dd       | $n = defaultdict(lambda: $any)
-        | $dd['q']
ctr      | $n = Counter('abca')
-        | $ctr.update('cd')
deque    | $n = deque([$any, $atom], maxlen=3)
-        | $deque.append($any)
-        | $deque.rotate(1)
val      | $n = types.SimpleNamespace(v=$any)
val      | $n = copy.copy($any)
val      | $n = copy.deepcopy($list)
ba       | $n = bytearray(b'abcdef')
mv       | $n = memoryview($ba)
mv       | $n = memoryview($ba)[1:4]
mv       | $n = $mv[1:]
mv       | $n = memoryview($arr)
-        | $ba[0] = 7
-        | $mv[0] = 9
arr      | $n = np.frombuffer($ba, dtype='u1')
arr      | $n = np.arange(8.0)
arr      | $n = np.arange(2000.0)
arr      | $n = $arr[1:]
arr      | $n = $arr[::2]
arr      | $n = $arr[::-1]
arr      | $n = $arr[2:]; $m = $arr[:4]
arr      | $n = $arr
arr2     | $n = np.zeros((3, 4))
arr2     | $n = np.arange(6.0).reshape(2, 3)
arr      | $n = $arr2[1]
arr      | $n = $arr2.reshape(-1)
arr2     | $n = $arr2.T
arr2     | $n = $arr2[:, 1:]
arr      | $n = np.zeros(2, dtype=[('x', 'i4'), ('y', 'f8')])['y']
-        | $arr[0] = 5
-        | $arr += 1
-        | $arr2[0, 0] = 3
-        | $arr.flags.writeable = False
oarr     | $n = np.empty(2, dtype=object); $n[0] = $any
-        | $oarr[1] = $any
df       | $n = pd.DataFrame({'p': [1, 2, 3], 'q': [1.5, 2.5, 3.5], 's': ['x', 'y', 'z']})
df       | $n = pd.DataFrame({'p': pd.Categorical(['u', 'v', 'u']), 'o': [[], None, {}]})
df       | $n = pd.DataFrame($arr2, copy=False)
df       | $n = $df[:]
df       | $n = $df.copy()
df       | $n = $df
ser      | $n = $df[$df.columns[0]]
ser      | $n = pd.Series($arr, copy=False)
ser      | $n = pd.Series([1, 2, 3], name='s', index=list('abc'))
arr      | $n = $ser.to_numpy()
arr      | $n = $df.to_numpy()
-        | $df.loc[0, $df.columns[0]] = 9
-        | $df['z'] = 1
-        | $df.attrs['m'] = 'note'
-        | $df.index.name = 'i'
-        | $ser.iloc[0] = 4
it       | $n = iter($list)
it       | $n = enumerate($list)
it       | $n = zip($list, $list2)
it       | $n = map(str, $list)
it       | $n = map(lambda x: (x, $any), $list)
it       | $n = filter(None, $list)
it       | $n = reversed($list)
it       | $n = itertools.count(3)
it       | $n = itertools.cycle($list)
it       | $n = itertools.chain($list, [1])
it       | $n = itertools.islice($it, 3)
it       | $n = zip($it, $it)
it       | $n = iter({1: $any, 2: 'x'})
it       | $n = iter({'k': $any, 'l': 0}.items())
it       | $n = iter($deque)
it       | $n = iter($tup)
it       | $n = iter('abc')
it       | $n = iter(range(5))
it       | $n = iter($call0, 'never')
-        | next($it, None)
val      | $n = next($it, None)
view     | $n = $dict.keys()
view     | $n = $dict.values()
view     | $n = $dict.items()
view     | $n = types.MappingProxyType($dict)
exc      | $n = ValueError($any, 'x')
exc      | $n = KeyError($any); $n.__cause__ = $exc
exc      | try:
         |     1 / 0
         | except ZeroDivisionError as e:
         |     $n = e
-        | $exc.add_note('n')
-        | $exc.extra = $any
rng      | $n = random.Random(4)
val      | $n = $rng.random()
val      | $n = random.random()
val      | $n = np.random.rand()
-        | random.seed(5)
call0    | $n = $rng.random
nrng     | $n = np.random.default_rng(3)
nrng     | $n = np.random.Generator($nrng.bit_generator)
val      | $n = $nrng.random()
val      | $n = np.random.RandomState(2)
wr       | $n = weakref.ref($inst)
val      | $n = $wr()
wvd      | $n = weakref.WeakValueDictionary()
-        | $wvd['k'] = $inst
val      | $n = weakref.WeakSet([$inst])
-        | print(len($list))
-        | from math import *
mod      | import collections.abc as $n
-        | $list.append('half')
         | raise ValueError('on purpose')
-        | $list.append($list[99])
-        | assert not $any, 'maybe'
"""

FUNCTIONS = """
call1    | $n = $list.append
call0    | $n = $dict.copy
call0    | $n = $inst.get
call1    | $n = $inst.put
call0    | $n = functools.partial($call1, $any)
call1    | $n = functools.partial($call1, key=$any)
call0    | $n = lambda: $any
call1    | $n = lambda x, y=$any: (x, y)
call1    | $n = $call1
call0    | $n = [lambda: i for i in range(3)][0]
-        | $call0()
-        | $call1($atom)
val      | $n = $call0()
val      | $n = $call1($any)
fn       | def $F(x=0):
         |     return (x, $any)
fn       | def $F(x=$any):
         |     return x
fn       | def $F(x=None, *, k=$any):
         |     $list.append(x)
         |     return k
fn       | def $F(x=0):
         |     global $list
         |     $list = [x]
fn       | def $F(x=0):
         |     return $call1(x - 1) if isinstance(x, int) and x > 0 else x
fn       | def $F(x: 'note' = 0) -> $cls:
         |     '''Doc.'''
         |     return $cls()
fn       | def $F(x=[]):
         |     x.append(len(x))
         |     return x
-        | $fn.tag = $any
-        | $fn.__defaults__ = ($any,)
call0, call0 | def make(s=$any):
         |     n = 0
         |     def inc():
         |         nonlocal n
         |         n += 1
         |         return (n, s)
         |     def get():
         |         return n
         |     return inc, get
         | $n, $m = make()
call0, call0 | def make(s):
         |     return (lambda: s.append(1)), (lambda: s)
         | $n, $m = make($list)
call0    | def make():
         |     def rec(k=0):
         |         return rec
         |     return rec
         | $n = make()
fn       | def $F(h):
         |     log = []
         |     @functools.wraps(h)
         |     def wrapper(*a):
         |         log.append(len(log))
         |         return h(*a)
         |     return wrapper
         | $F = $F($call1)
fn       | def deco(tag):
         |     def outer(h):
         |         h.tags = getattr(h, 'tags', ()) + (tag,)
         |         return h
         |     return outer
         | @deco($any)
         | @deco('t')
         | def $F(x=0):
         |     return $F.tags
fn       | @functools.lru_cache(maxsize=None)
         | def $F(x=0):
         |     return [x, $any]
call0    | def make(s=$any):
         |     if s is None:
         |         late = 1
         |     return lambda: late
         | $n = make()
"""

# What no checkpoint can hold; variables of their own, so that nothing else depends on them.
REPORTED = """
-        | $r = (i for i in $list)
-        | $r = [$list, threading.Lock()]
-        | $r = {'file': open('/dev/null'), 'other': $any}
-        | $r = threading.Thread()
"""
