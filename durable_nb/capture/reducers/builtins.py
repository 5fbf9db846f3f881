"""Built-in objects that pickle refuses or gets wrong: views, proxies, weak references, descriptors, sentinels.

Merged into the plug-in by `load`. Containers that look at another object keep looking at it.
"""

from __future__ import annotations

import copyreg
import dataclasses
import functools
import gc
import importlib
import logging
import os
import re
import types
import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import Any

from durable_nb.capture.borrowing import BORROWED
from durable_nb.capture.reducers import SHARING, Plugin, Unstorable, promise
from durable_nb.capture.reducers._named import owner

LIBRARY = None

_SAMPLES: tuple[dict[str, str], ...] = ({}, OrderedDict())
_VIEWS: dict[type, str] = {type(getattr(d, k)()): k for d in _SAMPLES for k in ("keys", "values", "items")}
_CACHED_PROPERTY = type(functools.cached_property(lambda _: None))


def _make_view(mapping: Any, kind: str) -> Any:
    return getattr(mapping, kind)()


@promise("exact")
def _view(view: Any) -> tuple[Any, ...]:
    return _make_view, (_looked_at(view), _VIEWS[type(view)])


def _looked_at(view: Any) -> Any:
    # Neither a view nor a proxy offers the object itself; the collector knows it.
    return gc.get_referents(view)[0]


def _make_proxy(mapping: Any) -> types.MappingProxyType[Any, Any]:
    return types.MappingProxyType(mapping)


@promise("exact")
def _proxy(proxy: Any) -> tuple[Any, ...]:
    mapping = _looked_at(proxy)
    if any(type(v) is types.GetSetDescriptorType and k in ("__dict__", "__weakref__") for k, v in mapping.items()):
        raise Unstorable("it shows the attributes of a class; use the class itself")
    return _make_proxy, (mapping,)


def _make_ref(target: Any, callback: Any) -> Any:
    return weakref.ref(target, None if BORROWED.get() else callback)


class _Gone:
    """What a dead weak reference once referred to."""


def _make_dead_ref() -> Any:
    return weakref.ref(_Gone())


@promise("exact")
def _ref(ref: Any) -> tuple[Any, ...]:
    target = ref()
    if target is None:
        return _make_dead_ref, ()
    return _make_ref, (target, ref.__callback__)


def _make_weak_proxy(target: Any) -> Any:
    return weakref.proxy(target)


def _behind(proxy: Any) -> Any:
    # A proxy forwards everything; only a bound method says what it is bound to.
    try:
        return proxy.__repr__.__self__
    except ReferenceError:
        raise Unstorable("a weak proxy whose object is gone") from None


@promise("exact")
def _weak_proxy(proxy: Any) -> tuple[Any, ...]:
    return _make_weak_proxy, (_behind(proxy),)


def _behind_if_alive(proxy: Any) -> Iterable[Any]:
    try:
        return (_behind(proxy),)
    except Unstorable:
        return ()


def _make_weak_method(method: Any) -> Any:
    return weakref.WeakMethod(method)


@promise("exact")
def _weak_method(ref: Any) -> tuple[Any, ...]:
    method = ref()
    return (_make_dead_ref, ()) if method is None else (_make_weak_method, (method,))


def _make_weak_container(cls: type) -> Any:
    return cls()


def _fill_weak_dict(target: Any, items: list[tuple[Any, Any]]) -> None:
    for key, value in items:
        target[key] = value


def _fill_weak_set(target: Any, items: list[Any]) -> None:
    for item in items:
        target.add(item)


@promise("exact")
def _weak_dict(mapping: Any) -> tuple[Any, ...]:
    return _make_weak_container, (type(mapping),), list(mapping.items()), None, None, _fill_weak_dict


@promise("exact")
def _weak_set(held: Any) -> tuple[Any, ...]:
    return _make_weak_container, (type(held),), list(held), None, None, _fill_weak_set


def _make_property(fget: Any, fset: Any, fdel: Any, doc: str | None) -> property:
    return property(fget, fset, fdel, doc)


@promise("exact")
def _property(obj: property) -> tuple[Any, ...]:
    return _make_property, (obj.fget, obj.fset, obj.fdel, obj.__doc__)


def _make_property_of(cls: type[property], fget: Any, fset: Any, fdel: Any, doc: str | None) -> property:
    return cls(fget, fset, fdel, doc)


@promise("exact")
def _property_subclass(obj: Any) -> Any:
    own: Any = type(obj).__reduce__
    if own is not object.__reduce__:
        return NotImplemented
    args = (type(obj), obj.fget, obj.fset, obj.fdel, obj.__doc__)
    return _make_property_of, args, getattr(obj, "__dict__", None) or None


def _make_wrapper(cls: type, function: Any) -> Any:
    return cls(function)


@promise("exact")
def _wrapper(obj: Any) -> tuple[Any, ...]:
    return _make_wrapper, (type(obj), obj.__func__)


def _make_cached_property() -> Any:
    return functools.cached_property(lambda _: None)


def _fill_cached_property(target: Any, state: dict[str, Any]) -> None:
    target.__dict__.update(state)


@promise("exact")
def _cached_property(obj: Any) -> tuple[Any, ...]:
    # Before Python 3.12 it holds a lock; a new, free one is right for a class that just came back.
    state = {k: v for k, v in vars(obj).items() if k != "lock"}
    return _make_cached_property, (), state, None, None, _fill_cached_property


def _make_place(cls: type, name: str) -> Any:
    return vars(cls)[name]


@promise("exact")
def _place(place: Any) -> tuple[Any, ...]:
    """Say of which class and name a place for attributes is; `functools.wraps` of a class hands them around."""
    if vars(place.__objclass__).get(place.__name__) is not place:
        raise Unstorable(f"the place of an attribute that {place.__objclass__.__qualname__} does not have any more")
    return _make_place, (place.__objclass__, place.__name__)


def _make_attribute(module: str, name: str) -> Any:

    return getattr(importlib.import_module(module), name)


def _constant(module: str, name: str) -> Callable[[Any], tuple[Any, ...]]:
    @promise("exact")
    def reduce(obj: Any) -> tuple[Any, ...]:
        return _make_attribute, (module, name)

    return reduce


@promise("exact")
def _dataclass_field_kind(obj: Any) -> tuple[Any, ...]:
    return _make_attribute, ("dataclasses", obj.name)


@promise("exact")
def _environ(obj: Any) -> tuple[Any, ...]:
    if obj is os.environ or obj is getattr(os, "environb", None):
        return _make_attribute, ("os", "environ" if obj is os.environ else "environb")
    raise Unstorable("a copy of the process environment made by hand")


def _refuse(reason: str) -> Callable[[Any], tuple[Any, ...]]:
    @promise("reported", reason)
    def reduce(obj: Any) -> tuple[Any, ...]:
        raise Unstorable(reason)

    return reduce


def _make_exception(cls: type[BaseException], args: tuple[Any, ...]) -> BaseException:
    """Return an exception without running the `__init__` of the user's class, whose arguments are not known."""
    made = cls.__new__(cls, *args)
    base = next(b for b in cls.__mro__ if not b.__flags__ & 1 << 9)
    base.__init__(made, *args)  # type: ignore[misc]
    return made


def _fill_exception(made: BaseException, state: tuple[Any, Any, Any, bool]) -> None:
    made.__dict__.update(state[0])
    made.__cause__, made.__context__, made.__suppress_context__ = state[1:]


def _make_os_error(cls: type[OSError], args: tuple[Any, ...]) -> OSError:
    """The same for OSError, which takes its arguments apart when it is made or when its `__init__` runs."""
    made = cls.__new__(cls, *args)
    OSError.__init__(made, *args)
    return made


def _fill_raised(made: BaseException, state: tuple[tuple[Any, Any, Any, bool], dict[str, Any]]) -> None:
    _fill_exception(made, state[0])
    for name, value in state[1].items():
        setattr(made, name, value)


# What an error keeps beside its arguments and its `__dict__`. Not the object that an AttributeError is about: it only
# serves suggestions, and may be anything.
_BESIDE: tuple[tuple[type[BaseException], tuple[str, ...]], ...] = (
    (AttributeError, ("name",)),
    (ImportError, ("name", "path", "name_from")),
    (NameError, ("name",)),
)
_OWN_WAYS: tuple[Any, ...] = tuple(
    error.__reduce__ for error in (BaseException, OSError, ImportError, AttributeError, NameError)
)


def _exception(error: Any) -> Any:
    """Describe an error without its traceback, which `types` adds. Python's own way drops what it was raised from."""
    if type(error).__reduce__ not in _OWN_WAYS:
        return NotImplemented
    func: Callable[..., BaseException]
    if isinstance(error, OSError):
        func, args = _make_os_error, (type(error), error.__reduce__()[1])
    else:
        func, args = _make_exception, (type(error), error.args)
    names = next((names for base, names in _BESIDE if isinstance(error, base)), ())
    beside = {name: held for name in names if (held := getattr(error, name, None)) is not None}
    if func is _make_exception:
        beside["args"] = error.args  # the very tuple, which a copy of the error shares
    state = (dict(vars(error)), error.__cause__, error.__context__, error.__suppress_context__)
    return func, args, (state, beside), None, None, _fill_raised


class _Answering(type):
    """Makes `issubclass` true for classes whose `__getattr__` would be asked while the object is still empty.

    Pickle looks for `__setstate__` before there is anything to answer from, which many a `__getattr__` never returns
    from. What is filled without asking does not mind.
    """

    def __subclasscheck__(cls, subclass: Any) -> bool:
        if not isinstance(getattr(subclass, "__getattr__", None), types.FunctionType):
            return False
        ways = ("__reduce_ex__", "__reduce__", "__getstate__", "__setstate__", "__getnewargs_ex__", "__getnewargs__")
        if any(getattr(subclass, way, None) is not getattr(object, way, None) for way in ways):
            return False
        return all(base is object or _is_plain(base) for base in subclass.__mro__)


def _is_plain(base: type) -> bool:
    return bool(base.__flags__ & 1 << 9) and base not in copyreg.dispatch_table


def _fill_answering(target: Any, state: dict[str, Any]) -> None:
    object.__getattribute__(target, "__dict__").update(state)


def _share_answering(target: Any, state: dict[str, Any]) -> None:
    object.__setattr__(target, "__dict__", state)


def _fill_slots(target: Any, state: tuple[dict[str, Any] | None, dict[str, Any]]) -> None:
    if state[0]:
        _fill_answering(target, state[0])
    for name, value in state[1].items():
        object.__setattr__(target, name, value)


@promise("exact")
def _answering(obj: Any) -> Any:
    reduced: Any = object.__reduce_ex__(obj, 2)
    make, args, state, *_ = reduced
    if isinstance(state, tuple):
        return make, args, state, None, None, _fill_slots
    sharing = SHARING.get()
    shared = sharing is not None and state is not None and id(state) in sharing.dicts
    return make, args, state, None, None, _share_answering if shared else _fill_answering


@promise("exact")
def _plain_object(obj: Any) -> Any:
    # A sentinel that a library tells by identity stays the library's; one of the notebook is shared as all is.
    home = owner(obj)
    return NotImplemented if home is None else (_make_attribute, home)


def _target(ref: Any) -> Iterable[Any]:
    target = ref()
    return () if target is None else (target, ref.__callback__)


def _shared(obj: Any) -> None:
    """Say that the process has one such object, which links nothing."""


def plugin() -> Plugin:
    """Return what the standard library's plain objects need."""
    exact: dict[type, Any] = dict.fromkeys(_VIEWS, _view)
    exact |= {
        object: _plain_object,
        types.MappingProxyType: _proxy,
        weakref.ref: _ref,
        weakref.WeakMethod: _weak_method,
        weakref.ProxyType: _weak_proxy,
        weakref.CallableProxyType: _weak_proxy,
        weakref.WeakValueDictionary: _weak_dict,
        weakref.WeakKeyDictionary: _weak_dict,
        weakref.WeakSet: _weak_set,
        property: _property,
        staticmethod: _wrapper,
        classmethod: _wrapper,
        _CACHED_PROPERTY: _cached_property,
        types.GetSetDescriptorType: _place,
        types.MemberDescriptorType: _place,
        type(os.environ): _environ,
        # Sentinels that the library compares by identity.
        type(dataclasses.MISSING): _constant("dataclasses", "MISSING"),
        type(dataclasses.KW_ONLY): _constant("dataclasses", "KW_ONLY"),
        type(dataclasses._HAS_DEFAULT_FACTORY): _constant("dataclasses", "_HAS_DEFAULT_FACTORY"),  # type: ignore[attr-defined]
        type(dataclasses._FIELD): _dataclass_field_kind,  # type: ignore[attr-defined]
        # What pickle stores without complaint and brings back broken.
        weakref.finalize: _refuse("a finalizer (weakref.finalize) belongs to the process that made it"),
        weakref.KeyedRef: _refuse("a weak reference inside a WeakValueDictionary"),
        re.Match: _refuse("cannot pickle 're.Match' object; keep m.groups() or m.span() instead"),
    }
    return Plugin(
        exact=exact,
        subclasses=(
            (property, _property_subclass),
            (staticmethod, _wrapper),
            (classmethod, _wrapper),
            (_Answering("answering", (), {}), _answering),
        ),
        referents={
            type(dataclasses._FIELD): _shared,  # type: ignore[attr-defined]
            type(os.environ): _shared,
            logging.Logger: _shared,
            logging.RootLogger: _shared,
            weakref.ref: _target,
            weakref.WeakMethod: lambda ref: (ref(),),
            weakref.ProxyType: _behind_if_alive,
            weakref.CallableProxyType: _behind_if_alive,
            weakref.KeyedRef: lambda ref: (ref(),),
            weakref.WeakValueDictionary: lambda d: list(d.values()),
            weakref.WeakKeyDictionary: lambda d: [*d.keys(), *d.values()],
            weakref.WeakSet: list,
        },
    )
