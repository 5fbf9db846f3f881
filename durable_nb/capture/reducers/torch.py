"""Tensors keep sharing their storage, with arrays too, keep `.grad`, and leave the graph that computed them behind.

Merged into the plug-in by `load` once torch is imported. A storage is stored once per pickle, out of band; a tensor is
an offset, a shape and strides into it. Modules and optimizers are in `_torch_nn`.
"""

from __future__ import annotations

import array
import pickle
import sys
import warnings
from collections.abc import Iterable
from functools import lru_cache
from typing import Any

from durable_nb.capture.reducers import SHARING, Plugin, Unstorable, promise
from durable_nb.capture.reducers import _torch_nn as nn
from durable_nb.capture.reducers._memory import BUFFERS, in_order, keeper, span

LIBRARY = "torch"


def _torch() -> Any:
    import torch

    return torch


def _make_storage(data: Any, size: int) -> Any:
    torch = _torch()
    if size == 0:
        return torch.UntypedStorage(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about memory that must not be written; it is only read here
        source = torch.frombuffer(data, dtype=torch.uint8)
    return (source.clone() if memoryview(data).readonly else source).untyped_storage()


def _make_storage_in(owner: Any, offset: int, size: int) -> Any:
    """Return a storage on the memory of an array, or of another storage."""
    torch = _torch()
    if isinstance(owner, BUFFERS):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return torch.frombuffer(owner, dtype=torch.uint8, offset=offset, count=size).untyped_storage()
    if isinstance(owner, torch.UntypedStorage):
        flat = torch.empty(0, dtype=torch.uint8).set_(owner, offset, (size,), (1,)).numpy()
    else:
        flat = in_order(owner).reshape(-1).view("u1")[offset : offset + size]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the array may be read-only, as the one before was
        return torch.from_numpy(flat).untyped_storage()


@promise("exact")
def _storage(storage: Any) -> Any:
    torch = _torch()
    if storage.device.type != "cpu":
        return storage.__reduce_ex__(5)
    size = storage.nbytes()
    if size == 0:
        return _make_storage, (b"", 0)
    owner = _elsewhere(storage)
    if owner is not None:
        return _make_storage_in, (owner, storage.data_ptr() - _address(owner), size)
    view = torch.empty(0, dtype=torch.uint8).set_(storage, 0, (size,), (1,))
    return _make_storage, (pickle.PickleBuffer(view.numpy()), size)


def _address(owner: Any) -> int:
    if isinstance(owner, BUFFERS):
        start, _ = span(owner) or (0, 0)
        return start
    return int(owner.data_ptr() if hasattr(owner, "data_ptr") else owner.__array_interface__["data"][0])


def _elsewhere(storage: Any) -> Any:
    """Return the array or the other storage that holds the memory of a storage, None if it holds it itself."""
    sharing = SHARING.get()
    where = storage.data_ptr(), storage.data_ptr() + storage.nbytes()
    if sharing is None or where not in sharing.memory:
        return None
    kept = keeper(sharing, where)
    if kept is None or not isinstance(kept, _torch().Tensor):
        return kept
    own = kept.untyped_storage()
    return None if own._cdata == storage._cdata else own


def _make_tensor(storage: Any, dtype: str, offset: int, shape: tuple[int, ...], strides: tuple[int, ...]) -> Any:
    torch = _torch()
    return torch.empty(0, dtype=getattr(torch, dtype)).set_(storage, offset, shape, strides)


def _make_parameter(cls: Any, data: Any) -> Any:
    return cls(data, requires_grad=False)


def _make_moved(data: Any, device: str) -> Any:
    torch = _torch()
    kind = device.partition(":")[0]
    # Without the card the value is still right; the tensor says itself where it is.
    usable = kind == "cuda" and torch.cuda.is_available()
    return data.to(device) if usable else data


@lru_cache(maxsize=1)
def _lost_graph() -> Any:
    torch = _torch()

    class GraphLeftBehind(torch.autograd.Function):  # type: ignore[misc,name-defined]
        """Stands where the graph of a computed tensor was, so that backward() fails instead of stopping short."""

        @staticmethod
        def forward(ctx: Any, anchor: Any, storage: Any, dtype: str, *place: Any) -> Any:
            """Return the tensor; nothing is computed."""
            return _make_tensor(storage, dtype, *place)

        @staticmethod
        def backward(ctx: Any, *gradients: Any) -> Any:
            """Say what happened."""
            raise RuntimeError(
                "this tensor came back after a restore without the graph that computed it: "
                "run the cell that computes it again before backward()"
            )

    return GraphLeftBehind


def _make_computed(storage: Any, dtype: str, *place: Any) -> Any:
    """Return a tensor that is the result of something, of which only the result is known."""
    return _lost_graph().apply(_torch().empty(0, requires_grad=True), storage, dtype, *place)


def _make_conjugate(tensor: Any, conjugate: bool, negative: bool) -> Any:
    """Return the lazy conjugate or negative of a tensor, on the same memory."""
    made = tensor.conj() if conjugate else tensor
    return _torch()._neg_view(made) if negative else made


def _fill_tensor(tensor: Any, state: dict[str, Any]) -> None:
    if state["requires_grad"]:
        tensor.requires_grad_(True)
    if state.get("retains_grad"):
        tensor.retain_grad()
    if state["grad"] is not None:
        tensor.grad = state["grad"]
    tensor.__dict__.update(state["attributes"])
    for name in nn.TENSOR_HOOKS:
        if state.get(name):
            setattr(tensor, name, state[name])
            nn.count_hooks(state[name])


@promise("exact", "a computed tensor comes back without its graph, and says so when backward() reaches it")
def _tensor(tensor: Any) -> Any:
    torch = _torch()
    if tensor.layout is not torch.strided or tensor.is_quantized or tensor.device.type not in {"cpu", "cuda"}:
        return tensor.__reduce_ex__(5)
    leaf = bool(tensor.is_leaf)
    state = {
        "requires_grad": leaf and bool(tensor.requires_grad),
        "grad": tensor.grad if leaf or tensor.retains_grad else None,
        "attributes": dict(vars(tensor)),
    }
    if not leaf and tensor.retains_grad:
        state["retains_grad"] = True
    if leaf:
        state |= {name: hooks for name in nn.TENSOR_HOOKS if (hooks := getattr(tensor, name, None))}
    fill = None if state == {"requires_grad": False, "grad": None, "attributes": {}} else state
    made = _made(tensor)
    return (*made, fill, None, None, _fill_tensor) if fill else made


def _make_as_subclass(cls: Any, data: Any) -> Any:
    return data.as_subclass(cls)


@promise("exact", "a computed tensor comes back without its graph, and says so when backward() reaches it")
def _subclass(tensor: Any) -> Any:
    torch = _torch()
    # Classes with a way of their own keep it; torch's way stores the numbers apart from those that share them.
    if type(tensor).__reduce_ex__ is not torch.Tensor.__reduce_ex__ or isinstance(tensor, torch.nn.Parameter):
        return NotImplemented
    with torch._C.DisableTorchFunctionSubclass():
        made = _tensor(tensor)
        if made[0] is _make_computed:
            raise Unstorable(f"a computed tensor of the class {type(tensor).__qualname__}; keep x.detach() of it")
        if made[0] is not _make_tensor:
            return NotImplemented
        plain = tensor.detach().as_subclass(torch.Tensor)
    return (_make_as_subclass, (type(tensor), plain), *made[2:])


def _made(tensor: Any) -> tuple[Any, ...]:
    torch = _torch()
    data = tensor.detach()
    if isinstance(tensor, torch.nn.Parameter):
        return _make_parameter, (type(tensor), data)
    if data.device.type != "cpu":
        return _make_moved, (data.cpu(), str(data.device))
    dtype = str(data.dtype).removeprefix("torch.")
    place = (data.storage_offset(), tuple(data.shape), tuple(data.stride()))
    if data.is_conj() or data.is_neg():
        plain = torch.empty(0, dtype=data.dtype).set_(data.untyped_storage(), *place)
        return _make_conjugate, (plain, data.is_conj(), data.is_neg())
    computed = not tensor.is_leaf and tensor.requires_grad
    return _make_computed if computed else _make_tensor, (data.untyped_storage(), dtype, *place)


def _make_generator(device: str, state: Any) -> Any:
    generator = _torch().Generator(device)
    generator.set_state(state)
    return generator


def _make_default_generator() -> Any:
    return _torch().default_generator


@promise("exact")
def _generator(generator: Any) -> Any:
    if generator is _torch().default_generator:
        return _make_default_generator, ()
    return _make_generator, (str(generator.device), generator.get_state())


def _make_info(cls: Any, dtype: str) -> Any:
    return cls(getattr(_torch(), dtype))


@promise("exact")
def _info(info: Any) -> Any:
    return _make_info, (type(info), info.dtype)


def _memory(tensor: Any) -> tuple[int, int] | None:
    torch = _torch()
    if tensor.layout is not torch.strided or tensor.device.type != "cpu" or torch.nn.parameter.is_lazy(tensor):
        return None
    try:
        start, size = tensor.untyped_storage().data_ptr(), tensor.untyped_storage().nbytes()
    except (RuntimeError, NotImplementedError):  # tensors that are none inside (nested, fake, of functorch) refuse
        return None
    return (start, start + size) if size else None


def _referents(tensor: Any) -> Iterable[Any]:
    grad = tensor.grad if tensor.is_leaf or tensor.retains_grad else None
    return [grad, *vars(tensor).values(), *(getattr(tensor, name, None) for name in nn.TENSOR_HOOKS)]


def _generator_referents(generator: Any) -> Iterable[Any] | None:
    return None if generator is _torch().default_generator else ()


def plugin() -> Plugin:
    """Return what torch needs; most of its other objects are made of tensors and come by themselves."""
    torch = sys.modules["torch"]
    return Plugin(
        exact={
            torch.Tensor: _tensor,
            torch.nn.Parameter: _tensor,
            torch.UntypedStorage: _storage,
            torch.Generator: _generator,
            torch.finfo: _info,
            torch.iinfo: _info,
        },
        subclasses=((torch.Tensor, _subclass), *nn.subclasses()),
        referents={torch.Tensor: _referents, torch.Generator: _generator_referents, **nn.referents()},
        # A tensor may lie on a bytearray, and knows only the address.
        memory={torch.Tensor: _memory, bytearray: span, array.array: span},
    )
