"""Modules keep their hooks, optimizers what schedulers hang on them, scripted modules the parameters others point at.

Used by `torch` beside it. Plain modules are made of tensors and pickle by themselves.
"""

from __future__ import annotations

import copyreg
import functools
import io
import sys
import warnings
import weakref
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from durable_nb.capture.reducers import Unstorable, promise
from durable_nb.capture.reducers._named import named

__all__ = ["TENSOR_HOOKS", "count_hooks", "referents", "subclasses"]

TENSOR_HOOKS = ("_backward_hooks", "_post_accumulate_grad_hooks")
_WRAPPED = "_wrapped_by_lr_sched"
_OF_PROCESS = frozenset({"step", "_zero_grad_profile_name", "_warned_capturable_if_run_uncaptured"})


def count_hooks(hooks: Mapping[Any, Any]) -> None:
    """Let new hooks be numbered behind these, because a number that is given twice replaces the older hook."""
    handle = sys.modules["torch"].utils.hooks.RemovableHandle
    numbers = [key for key in hooks if isinstance(key, int)]
    handle.next_id = max(handle.next_id, 1 + max(numbers, default=-1))


def _hooks(attributes: Mapping[str, Any]) -> list[Mapping[Any, Any]]:
    return [v for n, v in attributes.items() if n.endswith("hooks") and isinstance(v, dict) and v]


def _set_state(obj: Any, state: Any) -> None:
    if hasattr(obj, "__setstate__"):
        obj.__setstate__(state)
    else:
        obj.__dict__.update(state)


def _fill_hooked(obj: Any, state: Any) -> None:
    _set_state(obj, state)
    for hooks in _hooks(vars(obj)):
        count_hooks(hooks)


@promise("exact")
def _module(module: Any) -> Any:
    if not _hooks(vars(module)):
        return NotImplemented
    reduced = module.__reduce_ex__(5)
    if not isinstance(reduced, tuple) or len(reduced) > 5:
        return reduced
    function, args, state, items, pairs = (*reduced, None, None, None)[:5]
    return function, args, state, items, pairs, _fill_hooked


def _fill_optimizer(optimizer: Any, state: dict[str, Any]) -> None:
    optimizer.__setstate__(state["own"])
    optimizer.__dict__.update(state["other"])
    for hooks in _hooks(state["other"]):
        count_hooks(hooks)
    if state["watched"]:
        _watch(optimizer)


def _watch(optimizer: Any) -> None:
    """Note on the optimizer that it made a step, as its scheduler wants to know."""
    known: Callable[[], Any] = weakref.ref(optimizer)
    step = type(optimizer).step

    @functools.wraps(step)
    def watched(*args: Any, **kwargs: Any) -> Any:
        live = known()
        live._opt_called = True
        return step(live, *args, **kwargs)

    setattr(watched, _WRAPPED, True)
    optimizer.step = watched


@promise("exact")
def _optimizer(optimizer: Any) -> Any:
    # Its own way drops hooks, and what a scheduler hung on it, without which that one warns at its next step.
    torch = sys.modules["torch"]
    if type(optimizer).__getstate__ is not torch.optim.Optimizer.__getstate__:
        return NotImplemented
    own, other = optimizer.__getstate__(), dict(vars(optimizer))
    watched = hasattr(other.get("step"), _WRAPPED)
    skipped = {*own, *(_OF_PROCESS if watched else _OF_PROCESS - {"step"})}
    state = {"own": own, "other": {n: v for n, v in other.items() if n not in skipped}, "watched": watched}
    return copyreg.__newobj__, (type(optimizer),), state, None, None, _fill_optimizer  # type: ignore[attr-defined]


def _make_scripted(data: bytes) -> Any:
    torch: Any = sys.modules["torch"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # whoever scripts a module has been told that torch will drop this
        return torch.jit.load(io.BytesIO(data), map_location="cpu")


def _make_traced(cls: Any, attributes: dict[str, Any]) -> Any:
    """Return a traced module, which is a shell around a scripted one."""
    made = cls.__new__(cls)
    made.__dict__.update(attributes)
    return made


def _fill_scripted(module: Any, tensors: Mapping[str, Any]) -> None:
    for name, tensor in tensors.items():
        path, _, attribute = name.rpartition(".")
        holder = module
        for part in path.split(".") if path else ():
            holder = getattr(holder, part)
        holder._c.setattr(attribute, tensor)


@promise("equal", "its code is loaded from the archive that torch.jit.save makes")
def _scripted(module: Any) -> tuple[Any, ...]:
    torch = sys.modules["torch"]
    attributes = dict(vars(module))
    if "_actual_script_module" in attributes:
        return _make_traced, (type(module), attributes)
    file = io.BytesIO()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            torch.jit.save(module, file)
    except RuntimeError as error:
        raise Unstorable(f"a scripted module that torch.jit.save refuses: {str(error).splitlines()[0]}") from None
    return _make_scripted, (file.getvalue(),), dict(_tensors(module)), None, None, _fill_scripted


def _tensors(module: Any) -> list[tuple[str, Any]]:
    return [*module.named_parameters(), *module.named_buffers()]


def _scripted_referents(module: Any) -> Iterable[Any]:
    return [tensor for _, tensor in _tensors(module)]


def subclasses() -> tuple[tuple[Any, Callable[[Any], Any]], ...]:
    """Return the reducers of this file."""
    return (
        (named("torch.jit._script.ScriptModule"), _scripted),
        (named("torch.nn.modules.module.Module"), _module),
        (named("torch.optim.optimizer.Optimizer"), _optimizer),
    )


def referents() -> Mapping[type, Callable[[Any], Iterable[Any] | None]]:
    """Return what to follow: the parameters of a scripted module are not in its attributes."""
    return {sys.modules["torch"].jit.ScriptModule: _scripted_referents}
