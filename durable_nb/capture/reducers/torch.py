"""Tensors keep sharing their storage, keep `.grad`, and leave the graph that computed them behind.

Merged into the plug-in by `load` once torch is imported. A storage is stored once per pickle, out of band; a tensor is
an offset, a shape and strides into it.
"""

from __future__ import annotations

import pickle
import sys
import warnings
from collections.abc import Iterable
from typing import Any

from durable_nb.capture.reducers import Plugin

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


def _storage(storage: Any) -> Any:
    torch = _torch()
    if storage.device.type != "cpu":
        return storage.__reduce_ex__(5)
    size = storage.nbytes()
    if size == 0:
        return _make_storage, (b"", 0)
    view = torch.empty(0, dtype=torch.uint8).set_(storage, 0, (size,), (1,))
    return _make_storage, (pickle.PickleBuffer(view.numpy()), size)


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


def _fill_tensor(tensor: Any, state: dict[str, Any]) -> None:
    if state["requires_grad"]:
        tensor.requires_grad_(True)
    if state["grad"] is not None:
        tensor.grad = state["grad"]
    tensor.__dict__.update(state["attributes"])


def _tensor(tensor: Any) -> Any:
    torch = _torch()
    plain = tensor.layout is torch.strided and not (tensor.is_quantized or tensor.is_conj() or tensor.is_neg())
    if not plain or tensor.device.type not in {"cpu", "cuda"} or tensor._backward_hooks:
        return tensor.__reduce_ex__(5)
    leaf = bool(tensor.is_leaf)
    # Without its graph a computed tensor is a value: a later backward() must fail aloud instead of doing nothing.
    state = {
        "requires_grad": leaf and bool(tensor.requires_grad),
        "grad": tensor.grad if leaf else None,
        "attributes": dict(vars(tensor)),
    }
    fill = None if state == {"requires_grad": False, "grad": None, "attributes": {}} else state
    made = _made(tensor)
    return (*made, fill, None, None, _fill_tensor) if fill else made


def _made(tensor: Any) -> tuple[Any, ...]:
    torch = _torch()
    data = tensor.detach()
    if isinstance(tensor, torch.nn.Parameter):
        return _make_parameter, (type(tensor), data)
    if data.device.type != "cpu":
        return _make_moved, (data.cpu(), str(data.device))
    dtype = str(data.dtype).removeprefix("torch.")
    place = (data.storage_offset(), tuple(data.shape), tuple(data.stride()))
    return _make_tensor, (data.untyped_storage(), dtype, *place)


def _make_generator(device: str, state: Any) -> Any:
    generator = _torch().Generator(device)
    generator.set_state(state)
    return generator


def _make_default_generator() -> Any:
    return _torch().default_generator


def _generator(generator: Any) -> Any:
    if generator is _torch().default_generator:
        return _make_default_generator, ()
    return _make_generator, (str(generator.device), generator.get_state())


def _memory(tensor: Any) -> tuple[int, int] | None:
    torch = _torch()
    if tensor.layout is not torch.strided or tensor.device.type != "cpu" or not tensor.untyped_storage().nbytes():
        return None
    start = tensor.untyped_storage().data_ptr()
    return (start, start + tensor.untyped_storage().nbytes())


def _referents(tensor: Any) -> Iterable[Any]:
    grad = tensor.grad if tensor.is_leaf else None
    return [grad, *vars(tensor).values()]


def _generator_referents(generator: Any) -> Iterable[Any] | None:
    return None if generator is _torch().default_generator else ()


def plugin() -> Plugin:
    """Return what torch needs; modules, optimizers and shapes are made of tensors and come by themselves."""
    torch = sys.modules["torch"]
    return Plugin(
        exact={
            torch.Tensor: _tensor,
            torch.nn.Parameter: _tensor,
            torch.UntypedStorage: _storage,
            torch.Generator: _generator,
        },
        referents={torch.Tensor: _referents, torch.Generator: _generator_referents},
        memory={torch.Tensor: _memory},
    )
