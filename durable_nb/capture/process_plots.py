"""Process state of drawing libraries: settings, styles, registered colors and units, renderers, open figures.

Used by `process_libs`. Nothing here imports a library: what is not in `sys.modules` has no state yet.
"""

from __future__ import annotations

import operator
import os
import sys
import warnings
from collections.abc import Callable, Mapping
from typing import Any

from durable_nb.capture.process_charts import AltairSettings, BokehOutput, PlotlySettings
from durable_nb.capture.process_figures import Figures
from durable_nb.capture.process_held import Held, HeldTracker, mine
from durable_nb.capture.process_options import Library, Options
from durable_nb.model import Json, Unsaved

__all__ = ["plot_trackers"]


def plot_trackers(held: Held, enable_backend: Callable[[str], None] | None) -> tuple[Any, ...]:
    """Return the components of drawing libraries in the order in which they are restored."""
    return (
        RcParams(held),
        Backend(enable_backend),
        ColorLetters(),
        ColorMaps(held),
        Units(held),
        Fonts(),
        Figures(held),
        PlotlySettings(held),
        AltairSettings(held),
        BokehOutput(),
    )


class RcParams(Options):
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


class Backend(Library):
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
            # A kernel is started with MPLBACKEND naming it. Until pyplot needs it nothing shows figures as pictures.
            named = os.environ.get("MPLBACKEND", "") == backend
            return "" if named and "matplotlib_inline.backend_inline" not in sys.modules else "inline"
        return backend if backend.startswith("module://") else backend.lower()

    def base(self, mark: Any) -> Any:
        # That pyplot took up the inline backend has to be told although the environment names it, or the first figure
        # of the new kernel would appear one cell late.
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


class ColorLetters(Library):
    """The colors that one-letter names stand for, which seaborn's themes redefine."""

    name = "matplotlib.colors"
    needs = "matplotlib.colors"

    def mark(self) -> Any:
        known = sys.modules[self.needs]
        now = known.colorConverter.colors
        usual = known.BASE_COLORS
        return {k: [float(x) for x in now[k]] for k in usual if k in now and tuple(now[k]) != _LETTERS.get(k)}

    def base(self, mark: Any) -> Any:
        return {}

    def dump(self, mark: Any) -> Json:
        return mark

    def load(self, value: Any) -> list[Unsaved]:
        converter = sys.modules[self.needs].colorConverter
        for letter, usual in _LETTERS.items():
            converter.colors[letter] = tuple(value.get(letter, usual))
        converter.cache.clear()
        return []


# BASE_COLORS itself is what seaborn changes.
_LETTERS = {
    "b": (0, 0, 1), "g": (0, 0.5, 0), "r": (1, 0, 0), "c": (0, 0.75, 0.75), "m": (0.75, 0, 0.75), "y": (0.75, 0.75, 0),
    "k": (0, 0, 0), "w": (1, 1, 1),
}  # fmt: skip


class ColorMaps(HeldTracker):
    """Color maps and color sequences that a cell registered; those of libraries come with their import."""

    name = "matplotlib.colormaps"
    needs = "matplotlib.cm"
    fixed = True

    def __init__(self, held: Held) -> None:
        super().__init__(held)
        self._counts = (-1, -1)
        self._found: dict[str, Any] = {}

    def entries(self) -> Mapping[str, Any]:
        maps, sequences = _color_maps()
        counts = (len(maps), len(sequences))
        if counts != self._counts:
            self._counts = counts
            seaborn = getattr(sys.modules.get("seaborn"), "cm", None)
            theirs = set(vars(seaborn)) if seaborn is not None else set()
            usual = sys.modules["matplotlib"].colormaps._builtin_cmaps
            self._found = {
                f"colormap {n}": m for n, m in maps.items() if n not in usual and n not in theirs and not _packaged(m)
            }
            usual = getattr(sequences, "_BUILTIN_COLOR_SEQUENCES", {})
            self._found.update({f"sequence {n}": tuple(map(_color, sequences[n])) for n in sequences if n not in usual})
        return self._found

    def put(self, key: str, value: Any) -> None:
        matplotlib = sys.modules["matplotlib"]
        kind, _, name = key.partition(" ")
        registry = matplotlib.colormaps if kind == "colormap" else matplotlib.color_sequences
        if kind == "colormap":
            registry.register(value, name=name, force=True)
        elif name not in registry:
            registry.register(name, value)

    def drop(self, key: str) -> None:
        matplotlib = sys.modules["matplotlib"]
        kind, _, name = key.partition(" ")
        (matplotlib.colormaps if kind == "colormap" else matplotlib.color_sequences).unregister(name)


def _color(color: Any) -> Any:
    """Return a color of a sequence as plain data."""
    return color if isinstance(color, str) else tuple(float(x) for x in color)


def _color_maps() -> tuple[Mapping[str, Any], Any]:
    matplotlib = sys.modules["matplotlib"]
    return matplotlib.colormaps._cmaps, matplotlib.color_sequences


def _packaged(cmap: Any) -> bool:
    """Tell whether a library that registers color maps when it is imported (cmocean, colorcet, …) offers this one."""
    for library in ("cmocean", "colorcet", "cmasher", "cmcrameri", "scanpy", "yt"):
        module = sys.modules.get(library)
        if module is not None and any(cmap.name.startswith(p) for p in ("cmo.", "cet_", "cmr.", "cmc.")):
            return True
    return False


class Units(HeldTracker):
    """Converters of the notebook, or of its types, in matplotlib's registry of units."""

    name = "matplotlib.units"
    needs = "matplotlib.units"

    def __init__(self, held: Held) -> None:
        super().__init__(held)
        self._seen: tuple[list[Any], list[Any]] = ([], [])
        self._found: dict[str, Any] = {}

    def entries(self) -> Mapping[str, Any]:
        registry = sys.modules[self.needs].registry
        kinds, converters = list(registry), list(registry.values())
        # Not `==`: types with a metaclass of the notebook, and its converters, may say what they like.
        if len(kinds) != len(self._seen[0]) or not all(
            map(operator.is_, (*kinds, *converters), (*self._seen[0], *self._seen[1]))
        ):
            self._seen = (kinds, converters)
            self._found = {
                f"{kind.__module__}.{kind.__qualname__}": (kind, converter)
                for kind, converter in zip(kinds, converters, strict=True)
                if mine(kind) or mine(converter)
            }
        return self._found

    def put(self, key: str, value: Any) -> None:
        sys.modules[self.needs].registry[value[0]] = value[1]

    def drop(self, key: str) -> None:
        sys.modules[self.needs].registry.pop(self.entries()[key][0], None)


class Fonts(Library):
    """Files of fonts that a cell added; only their paths are stored."""

    name = "matplotlib.fonts"
    needs = "matplotlib.font_manager"

    def __init__(self) -> None:
        self._count = -1
        self._added: list[str] = []

    def mark(self) -> list[str]:
        manager = getattr(sys.modules[self.needs], "fontManager", None)
        fonts = [] if manager is None else manager.ttflist
        if len(fonts) != self._count:
            self._count = len(fonts)
            module = sys.modules[self.needs]
            usual = (sys.modules["matplotlib"].get_data_path(), *_font_folders(module))
            # The list is kept between processes; a font that is added comes last.
            self._added = []
            for font in reversed(fonts):
                path = str(font.fname)
                if path.startswith(usual):
                    break
                self._added.insert(0, os.path.abspath(path))
        return list(self._added)

    def base(self, mark: Any) -> Any:
        return []

    def dump(self, mark: Any) -> Json:
        return mark

    def load(self, value: Any) -> list[Unsaved]:
        manager = sys.modules[self.needs].fontManager
        problems = []
        for path in value:
            if path in self.mark():
                continue
            if os.path.exists(path):
                manager.addfont(path)
            else:
                reason = f"the file {path} is not there any more"
                problems.append(Unsaved(name=self.name, path=path, type="font", reason=reason))
        return problems


def _font_folders(module: Any) -> tuple[str, ...]:
    folders = [*module.X11FontDirectories, *module.OSXFontDirectories, *module.MSUserFontDirectories]
    return tuple(str(folder) for folder in folders if str(folder))
