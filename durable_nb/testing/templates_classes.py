"""The statements of random notebooks about classes and instances, in the form that `templates` describes.

Every class can be made with one value or none and has `put` and `get`, so that statements can use any of them.
"""

from __future__ import annotations

__all__ = ["CLASSES"]

CLASSES = """
cls      | class $C:
         |     shared = []
         |     def __init__(self, v=0):
         |         self.v = v
         |     def put(self, x):
         |         self.v = x
         |         self.shared.append(len(self.shared))
         |     def get(self):
         |         return self.v
cls      | class $C($cls):
         |     extra = $any
         |     def get(self):
         |         return ($atom, super().get())
cls      | class $C($cls):
         |     pass
cls      | class $C:
         |     __slots__ = ('v', 'w', '__weakref__')
         |     def __init__(self, v=0):
         |         self.v = v
         |     def put(self, x):
         |         self.w = x
         |     def get(self):
         |         return self.v
cls      | @dataclasses.dataclass
         | class $C:
         |     v: object = 0
         |     w: list = dataclasses.field(default_factory=list)
         |     def put(self, x):
         |         self.w.append(x)
         |     def get(self):
         |         return self.w
cls      | @dataclasses.dataclass(frozen=True, eq=False)
         | class $C:
         |     v: object = 0
         |     def put(self, x):
         |         object.__setattr__(self, 'v', x)
         |     def get(self):
         |         return self.v
cls      | @dataclasses.dataclass(slots=True, eq=False)
         | class $C:
         |     v: object = 0
         |     def put(self, x):
         |         self.v = x
         |     def get(self):
         |         return self.v
cls      | class Meta$C(type):
         |     made = []
         |     def __call__(cls, *a):
         |         o = super().__call__(*a)
         |         Meta$C.made.append(o)
         |         return o
         | class $C(metaclass=Meta$C):
         |     def __init__(self, v=0):
         |         self.v = v
         |     def put(self, x):
         |         self.v = x
         |     def get(self):
         |         return type(self).made
cls      | class $C:
         |     made = 0
         |     def __init__(self, v=0):
         |         self._v = v
         |         type(self).made += 1
         |     @property
         |     def v(self):
         |         return self._v
         |     @v.setter
         |     def v(self, x):
         |         self._v = x
         |     @classmethod
         |     def put(cls, x):
         |         cls.made += 1
         |     @staticmethod
         |     def get():
         |         return $any
cls      | class $C:
         |     kids = []
         |     def __init_subclass__(cls, **k):
         |         __class__.kids.append(cls.__name__)
         |     def __init__(self, v=0):
         |         self.v = v
         |     def put(self, x):
         |         self.w = x
         |     def get(self):
         |         return self.kids
cls      | class $C(list):
         |     def __init__(self, v=0):
         |         super().__init__([v])
         |         self.v = v
         |     __hash__ = object.__hash__
         |     def put(self, x):
         |         self.append(x)
         |     def get(self):
         |         return list(self)
cls      | class $C(dict):
         |     n = 0
         |     def __init__(self, v=0):
         |         self['v'] = v
         |     def __setitem__(self, k, x):
         |         self.n += 1
         |         super().__setitem__(k, x)
         |     __hash__ = object.__hash__
         |     def put(self, x):
         |         self['p'] = x
         |     def get(self):
         |         return self.n
cls      | class $C:
         |     def __init__(self, v=0):
         |         self._v = v
         |     def __getattr__(self, name):
         |         return getattr(self._v, name)
         |     def put(self, x):
         |         self._v = x
         |     def get(self):
         |         return self._v
cls      | class $C:
         |     def __init__(self, v=0):
         |         self.v = v
         |     def __getstate__(self):
         |         return {'kept': self.v, 'rest': {k: x for k, x in vars(self).items() if k != 'v'}}
         |     def __setstate__(self, s):
         |         self.v = s['kept']
         |         vars(self).update(s['rest'])
         |     def put(self, x):
         |         self.v = x
         |     def get(self):
         |         return self.v
cls      | class $C:
         |     class Inner:
         |         n = 0
         |     def __init__(self, v=0):
         |         self.v = self.Inner()
         |         self.v.w = v
         |     def put(self, x):
         |         self.Inner.n += 1
         |     def get(self):
         |         return self.v
cls      | def make_class(s=$any):
         |     class $C:
         |         def __init__(self, v=0):
         |             super().__init__()
         |             self.v = v
         |         def put(self, x):
         |             self.w = (x, s)
         |         def get(self):
         |             return s
         |     return $C
         | $C = make_class()
cls      | class Base$C(abc.ABC):
         |     @abc.abstractmethod
         |     def get(self): ...
         | class $C(Base$C):
         |     def __init__(self, v=0):
         |         self.v = v
         |     def put(self, x):
         |         self.v = x
         |     def get(self):
         |         return $any
cls      | T = typing.TypeVar('T')
         | class $C(typing.Generic[T]):
         |     def __init__(self, v: T = 0):
         |         self.v = v
         |     def put(self, x: T):
         |         self.v = x
         |     def get(self) -> T:
         |         return self.v
cls      | class $C:
         |     def __init__(self, v=0):
         |         self.v = v
         |     @functools.cached_property
         |     def once(self):
         |         return [self.v]
         |     def put(self, x):
         |         self.once.append(x)
         |     def get(self):
         |         return self.once
keycls   | class $C:
         |     def __init__(self, v='key'):
         |         self.v, self.peers = str(type(v)), {}
         |     def __hash__(self):
         |         return hash(self.v)
         |     def __eq__(self, other):
         |         return self is other
         |     def put(self, x):
         |         self.peers[x] = self
         |     def get(self):
         |         return self.peers
enum     | class $C(enum.Enum):
         |     X = 1
         |     Y = 'y'
         |     Z = 1
         |     def get(self):
         |         return self.value
enum     | class $C(enum.IntFlag):
         |     X = 1
         |     Y = 2
enum     | class $C(str, enum.Enum):
         |     X = 'x'
         |     Y = 'y'
val      | $n = $enum.X
val      | $n = {$enum.X: $any}
-        | $enum.X.tag = $any
ntcls    | class $C(typing.NamedTuple):
         |     v: object = 0
         |     w: list = None
val      | $n = $ntcls($any, [1])
exccls   | class $C(Exception):
         |     def __init__(self, v=0):
         |         super().__init__(f'code {v!r:.9}')
         |         self.v = v
exc      | $n = $exccls($atom)
exc      | try:
         |     raise $exccls(1) from $exc
         | except $exccls as e:
         |     $n = e
key      | $n = $keycls()
-        | $key.put($keycls())
-        | $dict[$key] = $any
inst     | $n = $cls($any)
inst     | $n = $cls($atom); $m = $n
inst     | $n = $cls()
list     | $n = [$cls($any), $cls($atom)]
-        | $inst.v = $any
-        | $inst.me = $inst
-        | $inst.put($any)
val      | $n = $inst.get()
val      | $n = $inst.v
dict     | $n = vars($solid)
-        | vars($inst)['w'] = $any
-        | $cls.shared = $any
-        | $cls.get = lambda self: $any
-        | $cls.shared.append($atom)
-        | $inst.__class__ = $cls
-        | $cls.__name__ = 'Renamed'
val      | $n = isinstance($inst, $cls)
val      | $n = type($inst)
val      | $n = $cls.get
!cls     | del $cls
val      | $n = typing.Optional[$cls]
val      | $n = list[$cls]
"""
