"""Process state of libraries: random streams, options, the drawing backend; only of libraries that are imported.

Used by `process`. Nothing here imports a library: what is not in `sys.modules` has no state yet.
"""

from __future__ import annotations

import io
import json
import os
import pickle
import sys
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from types import FunctionType
from typing import Any

from durable_nb.model import Json, Unsaved

__all__ = ["library_trackers"]


def library_trackers(enable_backend: Callable[[str], None] | None) -> tuple[Any, ...]:
    """Return the components of libraries in the order in which they are restored."""
    return (
        RcParams(),
        Backend(enable_backend),
        PandasOptions(),
        PolarsConfig(),
        SklearnConfig(),
        PrintOptions(),
        ErrorState(),
        TorchDefaults(),
        NumpyRandom(),
        TorchRandom(),
    )


class _Library:
    """What most components of libraries share."""

    name = ""
    needs = ""

    def base(self, mark: Any) -> Any:
        return None

    def lost(self, mark: Any) -> list[Unsaved]:
        return []


class NumpyRandom(_Library):
    """The legacy global stream of numpy."""

    name = "numpy.random"
    needs = "numpy.random"

    def mark(self) -> Any:
        state = sys.modules["numpy.random"].get_state(legacy=False)
        if state["bit_generator"] != "MT19937":  # numpy.random.set_bit_generator put another one in
            return ("other", pickle.dumps(state, protocol=5))
        inner = state["state"]
        return (inner["key"].tobytes(), inner["pos"], state["has_gauss"], state["gauss"])

    def base(self, mark: Any) -> Any:
        # Seeded by the system and never drawn from, a state starts like this; every seed() leaves position 624.
        untouched = mark[0] != "other" and mark[1] == 623 and mark[0][:4] == (0x80000000).to_bytes(4, sys.byteorder)
        return mark if untouched else None

    def dump(self, mark: Any) -> bytes:
        return pickle.dumps(mark, protocol=5)

    def load(self, value: bytes) -> list[Unsaved]:
        mark, random = pickle.loads(value), sys.modules["numpy.random"]
        if mark[0] == "other":
            random.set_state(pickle.loads(mark[1]))
            return []
        key = sys.modules["numpy"].frombuffer(mark[0], dtype="uint32")
        random.set_state(("MT19937", key, *mark[1:]))
        return []


class TorchRandom(_Library):
    """torch's default generators: the processor's, and those of graphics cards that are in use."""

    name = "torch.random"
    needs = "torch"

    def mark(self) -> Any:
        torch = sys.modules["torch"]
        cards = torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else []
        return tuple(state.numpy().tobytes() for state in (torch.get_rng_state(), *cards))

    def dump(self, mark: Any) -> bytes:
        return pickle.dumps(mark, protocol=5)

    def load(self, value: bytes) -> list[Unsaved]:
        torch = sys.modules["torch"]
        processor, *cards = (torch.frombuffer(bytearray(s), dtype=torch.uint8) for s in pickle.loads(value))
        torch.set_rng_state(processor)
        if len(cards) > torch.cuda.device_count():
            reason = f"there were {len(cards)} graphics cards, now there are {torch.cuda.device_count()}"
            return [Unsaved(name=self.name, path="cuda", type="Generator", reason=reason)]
        if cards:
            torch.cuda.set_rng_state_all(cards)
        return []


class TorchDefaults(_Library):
    """Default type of new tensors, gradients on or off, deterministic algorithms."""

    name = "torch.defaults"
    needs = "torch"

    def mark(self) -> Any:
        torch = sys.modules["torch"]
        return {
            "dtype": str(torch.get_default_dtype()).removeprefix("torch."),
            "grad": torch.is_grad_enabled(),
            "deterministic": torch.are_deterministic_algorithms_enabled(),
        }

    def base(self, mark: Any) -> Any:
        return {"dtype": "float32", "grad": True, "deterministic": False}

    def dump(self, mark: Any) -> Json:
        return mark

    def load(self, value: Any) -> list[Unsaved]:
        torch = sys.modules["torch"]
        torch.set_default_dtype(getattr(torch, value["dtype"]))
        torch.set_grad_enabled(value["grad"])
        torch.use_deterministic_algorithms(value["deterministic"])
        return []


class _Options(_Library, ABC):
    """Options of a library as a mapping; only what differs from its defaults is stored, as a pickle."""

    def current(self) -> Mapping[str, Any]:
        """Return all options."""
        return {}

    def defaults(self) -> Mapping[str, Any]:
        """Return the values that are not the user's doing."""
        return {}

    @abstractmethod
    def apply(self, changed: Mapping[str, Any]) -> None:
        """Set the options of `changed` and put every other changed one back to its default."""

    def mark(self) -> dict[str, Any]:
        defaults = self.defaults()
        return {k: list(v) if type(v) is list else v for k, v in self.current().items() if defaults.get(k, _NONE) != v}

    def base(self, mark: Any) -> Any:
        return {}

    def dump(self, mark: dict[str, Any]) -> bytes:
        # By key, so that one value that cannot be stored does not cost the others.
        return pickle.dumps({k: data for k, v in sorted(mark.items()) if (data := _pickled(v)) is not None}, protocol=5)

    def lost(self, mark: dict[str, Any]) -> list[Unsaved]:
        reason = "its value is or holds a function or class of the notebook; run the cell that sets it again"
        return [
            Unsaved(name=self.name, path=f"[{k!r}]", type=type(v).__name__, reason=reason)
            for k, v in sorted(mark.items())
            if _pickled(v) is None
        ]

    def load(self, value: bytes) -> list[Unsaved]:
        self.apply({k: pickle.loads(data) for k, data in pickle.loads(value).items()})
        return []


_NONE = object()


class _OptionPickler(pickle.Pickler):
    """Refuses what lives in the notebook: options are restored before there are variables."""

    def reducer_override(self, obj: Any) -> Any:
        if isinstance(obj, type | FunctionType) and getattr(obj, "__module__", None) == "__main__":
            raise pickle.PicklingError(f"{obj.__qualname__} is defined in the notebook")
        return NotImplemented


def _pickled(value: Any) -> bytes | None:
    stream = io.BytesIO()
    try:
        _OptionPickler(stream, protocol=5).dump(value)
    except (pickle.PicklingError, TypeError, AttributeError):
        return None
    return stream.getvalue()


# The first look may come after the cell that imported numpy also set options, so the defaults are spelt here.
_PRINT_DEFAULTS = dict(
    edgeitems=3, threshold=1000, floatmode="maxprec", precision=8, suppress=False, linewidth=75, nanstr="nan",
    infstr="inf", sign="-", formatter=None, legacy=False, override_repr=None,
)  # fmt: skip


class PrintOptions(_Options):
    """How numpy prints."""

    name = "numpy.printoptions"
    needs = "numpy"

    def current(self) -> Mapping[str, Any]:
        options: Mapping[str, Any] = sys.modules["numpy"].get_printoptions()
        return options

    def defaults(self) -> Mapping[str, Any]:
        return _PRINT_DEFAULTS

    def apply(self, changed: Mapping[str, Any]) -> None:
        known = self.current()
        sys.modules["numpy"].set_printoptions(**{k: v for k, v in {**self.defaults(), **changed}.items() if k in known})


class ErrorState(_Library):
    """What numpy does on overflow and the like."""

    name = "numpy.errstate"
    needs = "numpy"

    def mark(self) -> Any:
        numpy = sys.modules["numpy"]
        return (numpy.geterr(), numpy.geterrcall())

    def base(self, mark: Any) -> Any:
        return ({"divide": "warn", "over": "warn", "under": "ignore", "invalid": "warn"}, None)

    def dump(self, mark: Any) -> Json:
        return mark[0]

    def lost(self, mark: Any) -> list[Unsaved]:
        if mark[1] is None:
            return []
        reason = "the function set by numpy.seterrcall is not stored; run the cell that sets it again"
        return [Unsaved(name=self.name, path="geterrcall()", type=type(mark[1]).__name__, reason=reason)]

    def load(self, value: Any) -> list[Unsaved]:
        sys.modules["numpy"].seterr(**value)
        return []


class PandasOptions(_Options):
    """`pandas.options` that differ from their defaults."""

    name = "pandas.options"
    needs = "pandas"

    def current(self) -> Mapping[str, Any]:
        found: dict[str, Any] = {}
        # The public reader warns for every deprecated option and is far slower.
        _flatten("", sys.modules["pandas._config.config"]._global_config, found)
        return found

    def defaults(self) -> Mapping[str, Any]:
        registered = sys.modules["pandas._config.config"]._registered_options
        return {key: option.defval for key, option in registered.items()}

    def apply(self, changed: Mapping[str, Any]) -> None:
        pandas = sys.modules["pandas"]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for key in self.mark():
                if key not in changed:
                    pandas.reset_option(key)
            for key, value in changed.items():
                pandas.set_option(key, value)


def _flatten(prefix: str, tree: Mapping[str, Any], found: dict[str, Any]) -> None:
    for key, value in tree.items():
        if isinstance(value, dict):
            _flatten(f"{prefix}{key}.", value, found)
        else:
            found[prefix + key] = value


class PolarsConfig(_Library):
    """What `polars.Config` holds."""

    name = "polars.config"
    needs = "polars"

    def mark(self) -> Any:
        config = json.loads(sys.modules["polars"].Config.save(if_set=True))
        # Which variables count is polars' word; the process's own POLARS_MAX_THREADS and the like are not in it.
        return {part: values for part, values in config.items() if part in {"environment", "direct"}}

    def base(self, mark: Any) -> Any:
        return mark if not mark.get("environment") and mark.get("direct", {}) == _POLARS_DIRECT else None

    def dump(self, mark: Any) -> Json:
        return mark

    def load(self, value: Any) -> list[Unsaved]:
        config = sys.modules["polars"].Config
        config.restore_defaults()
        config.load(json.dumps(value))
        return []


_POLARS_DIRECT = {
    "set_fmt_float": "mixed",
    "set_float_precision": None,
    "set_thousands_separator": "",
    "set_decimal_separator": ".",
    "set_trim_decimal_zeros": False,
}


class SklearnConfig(_Library):
    """scikit-learn's global configuration; its defaults differ by version, so all of it is stored once imported."""

    name = "sklearn.config"
    needs = "sklearn"

    def mark(self) -> Any:
        return dict(sys.modules["sklearn"].get_config())

    def dump(self, mark: Any) -> Json:
        return {k: v for k, v in mark.items() if isinstance(v, bool | int | float | str | None)}

    def lost(self, mark: Any) -> list[Unsaved]:
        return [
            Unsaved(name=self.name, path=f"[{k!r}]", type=type(v).__name__, reason="its value is not plain data")
            for k, v in mark.items()
            if not isinstance(v, bool | int | float | str | None)
        ]

    def load(self, value: Any) -> list[Unsaved]:
        sklearn = sys.modules["sklearn"]
        known = sklearn.get_config()
        sklearn.set_config(**{k: v for k, v in value.items() if k in known})
        return []


class RcParams(_Options):
    """matplotlib's rcParams as far as they differ from what the user's matplotlibrc says."""

    name = "matplotlib.rcParams"
    needs = "matplotlib"

    def mark(self) -> dict[str, Any]:
        # Reading an item by the mapping's own method resolves the backend and warns for old names.
        now, base = sys.modules["matplotlib"].rcParams, sys.modules["matplotlib"].rcParamsOrig
        if dict.__eq__(now, base):
            return {}
        return {
            k: list(v) if type(v) is list else v
            for k, v in dict.items(now)
            if k not in _BACKEND_KEYS and (k not in base or dict.__getitem__(base, k) != v)
        }

    def apply(self, changed: Mapping[str, Any]) -> None:
        now, base = sys.modules["matplotlib"].rcParams, sys.modules["matplotlib"].rcParamsOrig
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            now.update({k: dict.__getitem__(base, k) for k in self.mark() if k not in changed and k in base})
            now.update({k: v for k, v in changed.items() if k in now})


_BACKEND_KEYS = frozenset({"backend", "backend_fallback"})


class Backend(_Library):
    """The drawing backend that pyplot has settled on."""

    name = "matplotlib.backend"
    needs = "matplotlib"

    def __init__(self, enable: Callable[[str], None] | None) -> None:
        self._enable = enable

    def mark(self) -> Any:
        # Until pyplot needs one the entry is a placeholder, and asking for it by name would choose.
        backend = dict.__getitem__(sys.modules["matplotlib"].rcParams, "backend")
        if not isinstance(backend, str):
            return ""
        if backend.lower().endswith("inline"):
            return "inline"
        return backend if backend.startswith("module://") else backend.lower()

    def base(self, mark: Any) -> Any:
        # A kernel is started with MPLBACKEND naming the inline backend; that pyplot took it up still has to be told,
        # or the first figure of the new kernel would appear one cell late.
        return "" if mark == "inline" or os.environ.get("MPLBACKEND", "").lower() != mark else mark

    def dump(self, mark: Any) -> Json:
        return {"backend": mark}

    def load(self, value: Any) -> list[Unsaved]:
        wanted = value["backend"]
        if not wanted:
            return []
        if wanted == "inline" and self._enable is not None:
            self._enable(wanted)
        elif wanted != self.mark():
            sys.modules["matplotlib"].use("module://matplotlib_inline.backend_inline" if wanted == "inline" else wanted)
        return []
