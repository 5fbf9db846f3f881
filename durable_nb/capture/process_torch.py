"""torch's defaults, switches and print options; what its print options and switches are in a new process is known.

Used by `process`. Nothing here imports torch: until a cell does it has no state.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Set
from typing import Any

from durable_nb.capture.process_options import Library
from durable_nb.model import Json, Unsaved

__all__ = ["TorchDefaults"]


def _torch() -> Any:
    return sys.modules["torch"]


def _device() -> str | None:
    context = getattr(getattr(_torch(), "_GLOBAL_DEVICE_CONTEXT", None), "device_context", None)
    return None if context is None else str(context.device)


def _printing() -> dict[str, Any]:
    options = _torch()._tensor_str.PRINT_OPTS
    return {name: getattr(options, name) for name in _PRINTING}


def _print(options: Any) -> None:
    known = _torch()._tensor_str.PRINT_OPTS
    for name, value in options.items():
        setattr(known, name, value)


def _cudnn(name: str) -> tuple[Callable[[], Any], Callable[[Any], None]]:
    def put(value: Any) -> None:
        setattr(_torch().backends.cudnn, name, value)

    return lambda: getattr(_torch().backends.cudnn, name), put


_PRINTING = {"precision": 4, "threshold": 1000, "edgeitems": 3, "linewidth": 80, "sci_mode": None}
# The value in a new process, getter, setter.
_SWITCHES: dict[str, tuple[Any, Callable[[], Any], Callable[[Any], None]]] = {
    "warn_only": (
        False,
        lambda: _torch().is_deterministic_algorithms_warn_only_enabled(),
        lambda on: _torch().use_deterministic_algorithms(_torch().are_deterministic_algorithms_enabled(), warn_only=on),
    ),
    "device": (None, _device, lambda name: _torch().set_default_device(name)),
    "anomaly": (False, lambda: _torch().is_anomaly_enabled(), lambda on: _torch().autograd.set_detect_anomaly(on)),
    "matmul": (
        "highest",
        lambda: _torch().get_float32_matmul_precision(),
        lambda text: _torch().set_float32_matmul_precision(text),
    ),
    "cudnn.benchmark": (False, *_cudnn("benchmark")),
    "cudnn.deterministic": (False, *_cudnn("deterministic")),
    "cudnn.enabled": (True, *_cudnn("enabled")),
    "printing": (_PRINTING, _printing, _print),
}


class TorchDefaults(Library):
    """Default type and device of new tensors, gradients on or off, determinism, threads, precision, printing."""

    name = "torch.defaults"
    needs = "torch"

    def __init__(self) -> None:
        self._threads = False

    def note(self, names: Set[str]) -> None:
        """Learn whether a cell sets the number of threads, whose default is the machine's business."""
        self._threads = self._threads or "set_num_threads" in names

    def mark(self) -> Any:
        torch = _torch()
        found = {
            "dtype": str(torch.get_default_dtype()).removeprefix("torch."),
            "grad": torch.is_grad_enabled(),
            "deterministic": torch.are_deterministic_algorithms_enabled(),
        }
        found.update({k: now for k, (usual, get, _) in _SWITCHES.items() if (now := get()) != usual})
        if self._threads:
            found["threads"] = torch.get_num_threads()
        return found

    def base(self, mark: Any) -> Any:
        return {"dtype": "float32", "grad": True, "deterministic": False}

    def dump(self, mark: Any) -> Json:
        return mark

    def load(self, value: Any) -> list[Unsaved]:
        torch = _torch()
        torch.set_default_dtype(getattr(torch, value["dtype"]))
        torch.set_grad_enabled(value["grad"])
        torch.use_deterministic_algorithms(value["deterministic"])
        problems = []
        for key, (usual, get, put) in _SWITCHES.items():
            wanted = value.get(key, usual)
            try:
                if get() != wanted:
                    put(wanted)
            except (RuntimeError, ValueError) as error:  # a device that is not there
                problems.append(Unsaved(name=self.name, path=key, type="setting", reason=f"it was refused: {error}"))
        if "threads" in value:
            self._threads = True
            torch.set_num_threads(value["threads"])
        return problems
