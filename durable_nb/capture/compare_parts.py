"""Take one object apart into what it is by itself and the objects it holds, so that two can be compared part by part.

Called by `compare` only. Nothing is changed; reduce methods of the user's classes run, silenced.
"""

from __future__ import annotations

import collections
import contextlib
import copyreg
import functools
import gc
import io
import math
import sys
import types
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from durable_nb.capture.compare_memory import Span, spans
from durable_nb.capture.reducers.ipywidgets import described

__all__ = ["ATOMS", "Incomparable", "Parts", "atom_key", "is_expression", "is_pandas", "parts"]

ATOMS: Final = frozenset(
    {int, float, complex, bool, str, bytes, type(None), type(Ellipsis), type(NotImplemented), range}
)  # fmt: skip
# Values that cannot change: it does not matter whether two places share one of them.
_VALUE_MODULES: Final = frozenset(
    {
        "datetime",
        "decimal",
        "_decimal",
        "fractions",
        "uuid",
        "pathlib",
        "ipaddress",
        "re",
        "zoneinfo",
        "types",
        "typing",
    }
)
_CLASS_NOISE: Final = frozenset(
    {
        "__dict__", "__weakref__", "__module__", "_abc_impl", "__abstractmethods__", "__firstlineno__", "__annotate__",
        "__static_attributes__", "__annotate_func__", "__annotations_cache__", "__subclasshook__", "__qualname__",
        "__slotnames__",
    }
)  # fmt: skip
_DEFAULT_HOOKS: Final = (object.__reduce_ex__, object.__reduce__, getattr(object, "__getstate__", None))
_CACHED: Final = type(functools.lru_cache(lambda: None))
_MEMBERS: Final = (
    types.MemberDescriptorType,
    types.GetSetDescriptorType,
    types.WrapperDescriptorType,
    types.MethodDescriptorType,
    types.ClassMethodDescriptorType,
)


_DICTS: Final[tuple[dict[int, int], ...]] = ({}, collections.OrderedDict())
_VIEWED: Final = tuple(view() for held in _DICTS for view in (held.keys, held.values, held.items))
_VIEWS: Final = frozenset(map(type, _VIEWED))
_DICT_ITERATORS: Final = frozenset(type(turn(view)) for view in _VIEWED for turn in (iter, reversed))


class Incomparable(Exception):
    """The object does not say what it consists of; `args[0]` is the reason."""


@dataclass(frozen=True, slots=True)
class Parts:
    """`head` holds atoms only; `children` are labels and objects; `shared` tells whether identity matters.

    The numbers of `arrays` are compared as bytes; `spans` are where in memory the object itself looks.
    """

    head: tuple[Any, ...]
    children: Sequence[tuple[Any, Any]] = ()
    shared: bool = True
    arrays: tuple[Any, ...] = ()
    unordered: bool = False
    spans: Sequence[Span] = ()


def atom_key(value: Any) -> Any:
    """Return something equal exactly for atoms that are the same: NaN is NaN, and zeros have signs."""
    kind = type(value)
    if kind is float:
        return ("float", "nan" if math.isnan(value) else value.hex())
    if kind is complex:
        return ("complex", atom_key(value.real), atom_key(value.imag))
    return (kind.__name__, value)


def _code_key(code: types.CodeType) -> tuple[Any, ...]:
    """Return everything of a code object but file name and line numbers."""
    return (
        code.co_name, code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags, code.co_code,
        code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars, code.co_exceptiontable,
        tuple(_constant_key(c) for c in code.co_consts),
    )  # fmt: skip


def _constant_key(value: Any) -> Any:
    if isinstance(value, types.CodeType):
        return _code_key(value)
    if isinstance(value, tuple):
        return ("tuple", *(_constant_key(v) for v in value))
    if isinstance(value, frozenset):
        return ("frozenset", frozenset(_constant_key(v) for v in value))
    return atom_key(value)


def is_pandas(value: Any) -> bool:
    """Tell whether an object is a table, column or index, whose insides pandas shares and copies as it likes."""
    pandas = sys.modules.get("pandas")
    return pandas is not None and issubclass(type(value), (pandas.DataFrame, pandas.Series, pandas.Index))


def is_expression(kind: type) -> bool:
    """Tell whether objects of a type are expressions of sympy: they cannot change, and one symbol is in all of them."""
    return any(base.__name__ == "Basic" and base.__module__ == "sympy.core.basic" for base in kind.__mro__)


def _array(value: Any, numpy: Any) -> Parts:
    head = ("array", repr(value.dtype), value.dtype.str, value.shape)
    if value.dtype.hasobject:
        flat = value.ravel().tolist()
        return Parts(head, [(("item", i), v) for i, v in enumerate(flat)], arrays=(value,))
    return Parts(head, arrays=(value,))


def _library(value: Any) -> Parts | None:
    """Take apart what numpy and torch give no useful reduce for; other libraries reduce to these."""
    kind = type(value)
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        if kind is numpy.ndarray:
            return _array(value, numpy)
        if issubclass(kind, numpy.dtype):
            return Parts(("dtype", repr(value), str(value.str)), shared=False)
        if issubclass(kind, numpy.generic) and not issubclass(kind, numpy.void):
            return Parts(("numpy", kind.__name__, repr(value.dtype), value.tobytes()), shared=False)
        if issubclass(kind, numpy.ufunc):
            return Parts(("ufunc", value.__name__), shared=False)
        random = sys.modules.get("numpy.random")
        if random is not None:
            if issubclass(kind, random.BitGenerator):
                return Parts(("bits", kind.__name__), [("state", value.state)])
            if issubclass(kind, random.Generator):
                return Parts(("generator",), [("bit_generator", value.bit_generator)])
            if issubclass(kind, random.RandomState):
                return Parts(("random_state",), [("state", value.get_state(legacy=False))])
    widgets = sys.modules.get("ipywidgets")
    if widgets is not None and issubclass(kind, getattr(widgets, "Widget", ())):
        return Parts(("widget",), [("class", kind), ("state", described(value))])
    torch = sys.modules.get("torch")
    if (
        torch is not None
        and hasattr(torch, "Tensor")
        and issubclass(kind, torch.Tensor)
        and value.layout == torch.strided
    ):
        raw = value.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy()
        head = ("tensor", str(value.dtype), tuple(value.shape), str(value.device), bool(value.requires_grad))
        return Parts(head, [("attributes", dict(vars(value)))], arrays=(raw,))
    return None


def _class(value: type) -> Parts:
    head = ("class", value.__module__, value.__qualname__)
    own = [(("attribute", n), v) for n, v in sorted(vars(value).items()) if n not in _CLASS_NOISE]
    bases = [(("base", i), b) for i, b in enumerate(value.__bases__)]
    return Parts(head, [("metaclass", type(value)), *bases, *own])


def _function(value: types.FunctionType) -> Parts:
    cells = []
    for name, cell in zip(value.__code__.co_freevars, value.__closure__ or (), strict=True):
        # The cell, not its contents: two functions may share a variable.
        cells.append((("variable", name), cell))
    children = [
        ("defaults", value.__defaults__),
        ("keyword defaults", value.__kwdefaults__),
        ("attributes", dict(value.__dict__)),
        *cells,
    ]
    return Parts(("function", value.__qualname__, _code_key(value.__code__)), children)


def _cell(value: types.CellType) -> Parts:
    try:
        return Parts(("cell",), [("contents", value.cell_contents)])
    except ValueError:
        return Parts(("empty cell",))


def _module(value: types.ModuleType) -> Parts:
    if sys.modules.get(value.__name__) is not None:
        return Parts(("module", value.__name__), shared=False)
    skip = {"__builtins__", "__loader__", "__spec__", "__file__", "__cached__"}
    return Parts(
        ("module", value.__name__), [(("attribute", n), v) for n, v in sorted(vars(value).items()) if n not in skip]
    )


def _builtin(value: Any) -> Parts:
    owner = value.__self__
    if owner is None or isinstance(owner, types.ModuleType):
        return Parts(("builtin", str(value.__module__), value.__qualname__), shared=False)
    return Parts(("builtin method", value.__name__), [("self", owner)], shared=False)


def _dict(value: dict[Any, Any]) -> Parts:
    children: list[tuple[Any, Any]] = []
    for position, (key, item) in enumerate(dict.items(value)):
        children.append((("key", position), key))
        children.append((("value", key), item))
    return Parts((len(value),), children)


def _sequence(value: Any) -> Parts:
    return Parts((len(value),), [(("item", i), v) for i, v in enumerate(value)])


def _view(value: memoryview) -> Parts:
    try:
        head = (value.format, value.shape, value.readonly, value.tobytes())
    except ValueError:
        return Parts(("released",))
    return Parts(head, [("of", value.obj)])


def _super(value: Any) -> Parts:
    # Whatever a super() object is asked, it asks another one.
    names = ("__thisclass__", "__self__", "__self_class__")
    return Parts((), [(name, vars(super)[name].__get__(value)) for name in names])


def _traceback(value: types.TracebackType) -> Parts:
    places: list[Any] = []
    at: types.TracebackType | None = value
    while at is not None:
        places += [at.tb_frame.f_code.co_filename, at.tb_frame.f_code.co_name, at.tb_lineno]
        at = at.tb_next
    return Parts(tuple(places), shared=False)


_KINDS: Final[dict[type, Callable[[Any], Parts]]] = {
    list: _sequence,
    tuple: lambda v: Parts((len(v),), [(("item", i), c) for i, c in enumerate(v)], shared=False),
    dict: _dict,
    set: lambda v: Parts((len(v),), [("element", e) for e in v], unordered=True),
    frozenset: lambda v: Parts((len(v),), [("element", e) for e in v], shared=False, unordered=True),
    bytearray: lambda v: Parts((bytes(v),)),
    memoryview: _view,
    super: _super,
    types.TracebackType: _traceback,
    slice: lambda v: Parts((), [("start", v.start), ("stop", v.stop), ("step", v.step)], shared=False),
    types.FunctionType: _function,
    types.CellType: _cell,
    types.CodeType: lambda v: Parts(_code_key(v), shared=False),
    types.MethodType: lambda v: Parts(("method",), [("function", v.__func__), ("self", v.__self__)], shared=False),
    types.BuiltinFunctionType: _builtin,
    types.MethodWrapperType: lambda v: Parts(("method wrapper", v.__name__), [("self", v.__self__)], shared=False),
    types.MappingProxyType: lambda v: Parts(("proxy",), _held(v)) if _is_plain(v) else _dict(dict(v)),
    **dict.fromkeys(_VIEWS, lambda v: Parts(("view",), _held(v))),
    staticmethod: lambda v: Parts(("staticmethod",), [("function", v.__func__)]),
    classmethod: lambda v: Parts(("classmethod",), [("function", v.__func__)]),
    property: lambda v: Parts((v.__doc__,), [("get", v.fget), ("set", v.fset), ("delete", v.fdel)]),
    # Its lock (before Python 3.12) is no part of what it means.
    functools.cached_property: lambda v: Parts((v.attrname,), [("function", v.func)]),
    _CACHED: lambda v: Parts(("cached",), [("function", v.__wrapped__), ("settings", v.cache_parameters())]),
    **{k: lambda v: Parts((v.__name__,), [("class", v.__objclass__)], shared=False) for k in _MEMBERS},
}


def _is_plain(proxy: types.MappingProxyType[Any, Any]) -> bool:
    """Tell whether a proxy shows a dictionary, and not what a class has."""
    return "__module__" not in proxy and any(type(obj) is dict for obj in gc.get_referents(proxy))


def _held(value: Any) -> list[tuple[Any, Any]]:
    """Return the dictionary that a view or an iterator looks at; one that is used up looks at none."""
    return [("of", obj) for obj in gc.get_referents(value) if issubclass(type(obj), dict)]


def _is_silent(kind: type) -> bool:
    """Tell whether reducing runs code of the interpreter only, which neither prints nor warns."""
    hooks = (getattr(kind, n, None) for n in ("__reduce_ex__", "__reduce__", "__getstate__"))
    plain = all(hook is default for hook, default in zip(hooks, _DEFAULT_HOOKS, strict=True))
    return plain and not any(hasattr(kind, n) for n in ("__getnewargs__", "__getnewargs_ex__"))


@contextlib.contextmanager
def _silence(kind: type) -> Iterator[None]:
    if _is_silent(kind):
        yield
        return
    # Only around the hook: other threads of the user print meanwhile.
    with (
        warnings.catch_warnings(),
        contextlib.redirect_stdout(io.StringIO()),
        contextlib.redirect_stderr(io.StringIO()),
    ):
        warnings.simplefilter("ignore")
        yield


def _reduced(value: Any) -> Parts:
    kind = type(value)
    try:
        with _silence(kind):
            reducer = copyreg.dispatch_table.get(kind)
            reduced = reducer(value) if reducer is not None else value.__reduce_ex__(4)
            if isinstance(reduced, str):
                return Parts(("global", kind.__module__, reduced), shared=False)
            function, arguments, state, items, entries, *more = (*reduced, None, None, None, None)[:6]
            children: list[tuple[Any, Any]] = [("made by", function), ("arguments", arguments), ("state", state)]
            if items is not None:
                children += [(("item", i), v) for i, v in enumerate(items)]
            if entries is not None:
                for position, (key, item) in enumerate(entries):
                    children += [(("key", position), key), (("value", key), item)]
    except Exception as error:
        raise Incomparable(f"{type(error).__name__}: {error}") from error
    if issubclass(kind, BaseException):
        children += [("cause", value.__cause__), ("arguments", value.args), ("traceback", value.__traceback__)]
    module = str(kind.__module__)  # classes made at run time may have none
    if module.partition(".")[0] == "pandas" and type(state) is dict:
        # Filled on first use and set on shallow copies: neither is part of what the column holds.
        children[2] = ("state", {k: v for k, v in state.items() if k not in ("_cache", "_item_cache", "_readonly")})
    if kind in _DICT_ITERATORS:
        children += _held(value)  # of itself one says only what is left
    if any(m is not None for m in more):
        children.append(("state setter", more[0]))
    is_value = module in _VALUE_MODULES or module.startswith("pandas._libs.tslibs") or is_expression(kind)
    return Parts((len(children),), children, shared=not is_value)


def parts(value: Any) -> Parts:
    """Return what an object consists of; Incomparable when it does not say."""
    found = _parts(value)
    where = spans(value)
    return replace(found, spans=where) if where else found


def _parts(value: Any) -> Parts:
    kind = type(value)
    take_apart = _KINDS.get(kind)
    if take_apart is not None:
        return take_apart(value)
    if issubclass(kind, type):
        return _class(value)
    if issubclass(kind, types.ModuleType):
        return _module(value)
    if issubclass(kind, (set, frozenset)) and kind.__reduce__ in (set.__reduce__, frozenset.__reduce__):
        # Their own reduce lists the elements in an order that means nothing.
        own = [("attributes", dict(vars(value)))] if hasattr(value, "__dict__") else []
        return Parts((len(value),), [*(("element", e) for e in value), *own], unordered=True)
    return _library(value) or _reduced(value)
