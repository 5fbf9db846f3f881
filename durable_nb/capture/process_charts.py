"""Process state of plotly, altair and bokeh: how charts are rendered, templates and themes, defaults.

Used by `process_plots`. Nothing here imports a library: what is not in `sys.modules` has no state yet.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

from durable_nb.capture.process_held import Held, HeldTracker, mine
from durable_nb.model import Json, Unsaved

__all__ = ["AltairSettings", "BokehOutput", "PlotlySettings"]


class PlotlySettings(HeldTracker):
    """plotly's default renderer and template, templates of the notebook, defaults of plotly.express."""

    name = "plotly.settings"
    needs = "plotly.io"
    fixed = True

    def __init__(self, held: Held) -> None:
        super().__init__(held)
        self._usual: dict[str, Any] = {}
        self._names: frozenset[str] = frozenset()

    def _io(self) -> tuple[Any, Any]:
        module = sys.modules[self.needs]
        renderers, templates = module.renderers, module.templates
        if not self._usual:
            # What plotly chooses by its surroundings when it is imported.
            self._usual = {"renderer": _usual_renderer(renderers), "template": "plotly"}
            self._names = _packaged_templates(templates)
        return renderers, templates

    def entries(self) -> Mapping[str, Any]:
        renderers, templates = self._io()
        now = {"renderer": renderers.default, "template": templates.default}
        found: dict[str, Any] = {
            f"template {name}": template for name, template in templates._templates.items() if name not in self._names
        }
        found.update({key: value for key, value in now.items() if value != self._usual[key]})
        express = sys.modules.get("plotly.express")
        defaults = getattr(express, "defaults", None)
        if defaults is not None:
            fresh = type(defaults)()
            for name in type(defaults).__slots__:
                if getattr(defaults, name) != getattr(fresh, name):
                    found[f"express {name}"] = getattr(defaults, name)
        return found

    def put(self, key: str, value: Any) -> None:
        renderers, templates = self._io()
        kind, _, name = key.partition(" ")
        if kind == "renderer":
            renderers.default = value
        elif kind == "express":
            setattr(__import__("plotly.express").express.defaults, name, value)
        elif name:
            templates[name] = value
        else:
            templates.default = value

    def drop(self, key: str) -> None:
        renderers, templates = self._io()
        kind, _, name = key.partition(" ")
        if kind == "express":
            defaults = sys.modules["plotly.express"].defaults
            setattr(defaults, name, getattr(type(defaults)(), name))
        elif kind == "renderer":
            renderers.default = self._usual["renderer"]
        elif name:
            del templates[name]
        else:
            templates.default = self._usual["template"]


def _usual_renderer(renderers: Any) -> Any:
    # The first look may come after the cell that imports plotly and chooses a renderer at once.
    module = sys.modules["plotly.io._renderers"]
    chosen = getattr(module, "default_renderer", None)
    return renderers.default if chosen is None else chosen


def _packaged_templates(templates: Any) -> frozenset[str]:
    lazy = sys.modules["plotly.io._templates"].Lazy
    known = {"none", "ggplot2", "seaborn", "simple_white", "plotly", "plotly_white", "plotly_dark", "presentation",
             "xgridoff", "ygridoff", "gridon"}  # fmt: skip
    return frozenset(known | {name for name, one in templates._templates.items() if one is lazy})


class AltairSettings(HeldTracker):
    """altair's renderer, data transformer and theme, each with its options and what the notebook registered."""

    name = "altair.settings"
    needs = "altair"

    def _registries(self) -> dict[str, Any]:
        module = sys.modules[self.needs]
        themes = getattr(sys.modules.get("altair.theme"), "_themes", None) or getattr(module, "themes", None)
        found = {"renderer": module.renderers, "data_transformer": module.data_transformers, "theme": themes}
        return {name: registry for name, registry in found.items() if registry is not None}

    def entries(self) -> Mapping[str, Any]:
        found: dict[str, Any] = {}
        for kind, registry in self._registries().items():
            for name, plugin in registry._plugins.items():
                if mine(plugin):
                    found[f"{kind} plugin {name}"] = plugin
            if registry._active_name != "default" or registry._options:
                found[kind] = (registry._active_name, *(x for pair in registry._options.items() for x in pair))
        return found

    def put(self, key: str, value: Any) -> None:
        kind, _, name = key.partition(" plugin ")
        registry = self._registries()[kind]
        if name:
            registry.register(name, value)
        else:
            registry.enable(value[0], **dict(zip(value[1::2], value[2::2], strict=True)))

    def drop(self, key: str) -> None:
        kind, _, name = key.partition(" plugin ")
        registry = self._registries()[kind]
        if name:
            registry.register(name, None)
        else:
            registry.enable("default")


class BokehOutput:
    """Where bokeh shows its plots: in the notebook, into a file, or both; only the names are stored."""

    name = "bokeh.output"
    needs = "bokeh.io.state"

    def mark(self) -> dict[str, Any]:
        """Return what is switched on."""
        state = sys.modules[self.needs].curstate()
        found: dict[str, Any] = {}
        if state.notebook:
            found["notebook"] = state.notebook_type
        if state.file is not None:
            found["file"] = {
                "filename": str(state.file.filename),
                "title": state.file.title,
                "mode": state.file.resources.mode,
            }
        return found

    def base(self, mark: Any) -> Any:
        """Return the untouched state: nothing is switched on."""
        return {}

    def dump(self, mark: Any) -> Json:
        """Return all of it."""
        return mark

    def lost(self, mark: Any) -> list[Unsaved]:
        """Return nothing: names are all there is."""
        return []

    def load(self, value: Any) -> list[Unsaved]:
        """Switch on what was; the page has the scripts that the cell sent to it then."""
        state = sys.modules[self.needs].curstate()
        document = state.document
        state.reset()
        state.document = document
        if "notebook" in value:
            state.output_notebook(value["notebook"])
        if "file" in value:
            state.output_file(**value["file"])
        return []
