"""Process state of data libraries: options and configurations; only of libraries that are imported.

Used by `process`. Nothing here imports a library: what is not in `sys.modules` has no state yet.
"""

from __future__ import annotations

import importlib
import json
import sys
import warnings
from collections.abc import Callable, Mapping, Set
from typing import Any

from durable_nb.capture.process_held import Held, Lost
from durable_nb.capture.process_options import Library as _Library
from durable_nb.capture.process_options import Options as _Options
from durable_nb.capture.process_plots import plot_trackers
from durable_nb.capture.process_random import NumpyRandom, TorchRandom
from durable_nb.capture.process_registered import ArrowFunctions, SqlalchemyEvents
from durable_nb.capture.process_sympy import SympyNumbers
from durable_nb.capture.process_torch import TorchDefaults
from durable_nb.model import Json, Unsaved

__all__ = ["library_trackers"]


def library_trackers(held: Held, enable_backend: Callable[[str], None] | None) -> tuple[Any, ...]:
    """Return the components of libraries in the order in which they are restored."""
    return (
        *plot_trackers(held, enable_backend),
        PandasOptions(held),
        PolarsConfig(),
        SklearnConfig(),
        SklearnNumbers(),
        SympyNumbers(),
        XarrayOptions(),
        ArrowSettings(),
        ArrowFunctions(),
        SqlalchemyEvents(),
        TqdmPandas(),
        PrintOptions(held),
        ErrorState(held),
        TorchDefaults(),
        NumpyRandom(),
        TorchRandom(),
    )


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

    def __init__(self, held: Held) -> None:
        self._held = held

    def mark(self) -> Any:
        numpy = sys.modules["numpy"]
        call = numpy.geterrcall()
        return (numpy.geterr(), call, None if call is None else self._code(call))

    def _code(self, call: Any) -> Json:
        """Return a description of what is called on an error, None if there is none."""
        try:
            return self._held.describe(call)
        except Lost:
            return None

    def base(self, mark: Any) -> Any:
        return ({"divide": "warn", "over": "warn", "under": "ignore", "invalid": "warn"}, None, None)

    def dump(self, mark: Any) -> Json:
        return mark[0] if mark[2] is None else {**mark[0], _CALL: mark[2]}

    def lost(self, mark: Any) -> list[Unsaved]:
        if mark[1] is None or mark[2] is not None:
            return []
        reason = "what numpy.seterrcall set cannot be stored; run the cell that sets it again"
        return [Unsaved(name=self.name, path="geterrcall()", type=type(mark[1]).__name__, reason=reason)]

    def load(self, value: Any) -> list[Unsaved]:
        numpy, code = sys.modules["numpy"], value.get(_CALL)
        problems = []
        try:
            numpy.seterrcall(None if code is None else self._held.make(code))
        except Lost as lost:
            reason = str(lost.args[0])
            problems.append(Unsaved(name=self.name, path="geterrcall()", type="object", reason=reason))
        numpy.seterr(**{k: v for k, v in value.items() if k != _CALL})
        return problems


_CALL = "call"


class PandasOptions(_Options):
    """`pandas.options` that differ from their defaults."""

    name = "pandas.options"
    needs = "pandas"

    def __init__(self, held: Held) -> None:
        super().__init__(held)
        self._seen: tuple[int, Any] = (0, None)
        self._mark: dict[str, Any] = {}

    def mark(self) -> dict[str, Any]:
        config = sys.modules["pandas._config.config"]
        # C compares the options with a copy of them much faster than each is compared with its default.
        count, tree = len(config._registered_options), config._global_config
        if self._seen != (count, tree):
            self._seen, self._mark = (count, _copied(tree)), super().mark()
        return self._mark

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


def _copied(tree: Any) -> Any:
    if isinstance(tree, dict):
        return {key: _copied(value) for key, value in tree.items()}
    return list(tree) if type(tree) is list else tree


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


class SklearnNumbers(_Library):
    """How many estimators scikit-learn has shown as HTML: each gets the next numbers, by which its style finds it."""

    name = "sklearn.shown"
    needs = "sklearn"

    @staticmethod
    def _counters() -> list[Any]:
        # The first is where scikit-learn 1.7 and newer have them.
        places = ("sklearn.utils._repr_html.estimator", "sklearn.utils._estimator_html_repr")
        module = next((sys.modules[place] for place in places if place in sys.modules), None)
        found = [getattr(module, name, None) for name in ("_CONTAINER_ID_COUNTER", "_ESTIMATOR_ID_COUNTER")]
        return [counter for counter in found if type(getattr(counter, "count", None)) is int]

    def mark(self) -> list[int]:
        return [counter.count for counter in self._counters()]

    def base(self, mark: Any) -> list[int]:
        return [0] * len(mark)

    def dump(self, mark: list[int]) -> Json:
        return mark

    def load(self, value: Any) -> list[Unsaved]:
        for counter, count in zip(self._counters(), value, strict=False):
            counter.count = int(count)
        return []


class XarrayOptions(_Library):
    """xarray's options; its defaults differ by version, so all of them are stored once it is imported."""

    name = "xarray.options"
    needs = "xarray.core.options"

    def mark(self) -> Any:
        return dict(sys.modules[self.needs].OPTIONS)

    def dump(self, mark: Any) -> Json:
        return {k: list(v) if isinstance(v, tuple) else v for k, v in mark.items() if _plain(v)}

    def lost(self, mark: Any) -> list[Unsaved]:
        reason = "its value is not plain data; run the cell that sets it again"
        return [
            Unsaved(name=self.name, path=f"[{k!r}]", type=type(v).__name__, reason=reason)
            for k, v in mark.items()
            if not _plain(v)
        ]

    def load(self, value: Any) -> list[Unsaved]:
        options = sys.modules[self.needs].OPTIONS
        changed = {k: tuple(v) if isinstance(v, list) else v for k, v in value.items()}
        changed = {k: v for k, v in changed.items() if k in options and options[k] != v}
        if changed:
            sys.modules[self.needs].set_options(**changed)
        return []


def _plain(value: Any) -> bool:
    if isinstance(value, list | tuple):
        return all(map(_plain, value))
    return isinstance(value, bool | int | float | str | None)


class ArrowSettings(_Library):
    """pyarrow's threads and memory pool, if a cell has set them: their defaults are the machine's business."""

    name = "pyarrow.settings"
    needs = "pyarrow.lib"

    def __init__(self) -> None:
        self._set: set[str] = set()

    def note(self, names: Set[str]) -> None:
        """Learn which of them a cell sets."""
        self._set |= _ARROW.keys() & names

    def mark(self) -> dict[str, Any]:
        module = sys.modules[self.needs]
        return {name: _ARROW[name](module) for name in sorted(self._set)}

    def base(self, mark: Any) -> Any:
        return {}

    def dump(self, mark: Any) -> Json:
        return mark

    def load(self, value: Any) -> list[Unsaved]:
        module = sys.modules[self.needs]
        self._set |= value.keys()
        for name, wanted in value.items():
            argument = getattr(module, f"{wanted}_memory_pool")() if name == "set_memory_pool" else wanted
            getattr(module, name)(argument)
        return []


class TqdmPandas(_Library):
    """Whether `tqdm.pandas()` gave pandas its `progress_apply`, by which kind of bar and with which options."""

    name = "tqdm.pandas"
    needs = "tqdm.std"

    def mark(self) -> dict[str, Any]:
        frame = getattr(sys.modules.get("pandas"), "DataFrame", None)
        function: Any = getattr(frame, "progress_apply", None)
        code = getattr(function, "__code__", None)
        if code is None or function.__module__ != self.needs:
            return {}
        held = {n: c.cell_contents for n, c in zip(code.co_freevars, function.__closure__ or (), strict=True)}
        bar, options = held.get("cls", sys.modules[self.needs].tqdm), held.get("tqdm_kwargs", {})
        return {"bar": [bar.__module__, bar.__qualname__], "options": {k: v for k, v in options.items() if _plain(v)}}

    def base(self, mark: Any) -> Any:
        return {}

    def dump(self, mark: Any) -> Json:
        return mark

    def load(self, value: Any) -> list[Unsaved]:
        if value:
            module, name = value["bar"]
            getattr(importlib.import_module(module), name).pandas(**value["options"])
        return []


_ARROW: dict[str, Callable[[Any], Any]] = {
    "set_cpu_count": lambda module: module.cpu_count(),
    "set_io_thread_count": lambda module: module.io_thread_count(),
    "set_memory_pool": lambda module: module.default_memory_pool().backend_name,
}
