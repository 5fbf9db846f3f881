"""Drawings go on drawing on their image; fonts that were read from memory come back from the same bytes.

Merged into the plug-in by `load` once PIL is imported. Images pickle by themselves.
"""  # noqa: N999  # a file here has the name of its library

from __future__ import annotations

import io
from typing import Any

from durable_nb.capture.reducers import Plugin, promise
from durable_nb.capture.reducers._named import named

LIBRARY = "PIL"


def _make_draw(image: Any, mode: str, state: dict[str, Any]) -> Any:
    from PIL import ImageDraw

    made = ImageDraw.Draw(image, mode)
    for name, value in state.items():
        setattr(made, name, value)
    return made


@promise("exact")
def _draw(draw: Any) -> Any:
    state = {name: getattr(draw, name) for name in ("ink", "fill", "fontmode", "font")}
    return _make_draw, (draw._image, draw.mode, state)


def _make_font(data: bytes, size: float, index: int, encoding: str, layout_engine: int) -> Any:
    from PIL import ImageFont

    return ImageFont.truetype(io.BytesIO(data), size, index, encoding, ImageFont.Layout(layout_engine))


@promise("exact")
def _font(font: Any) -> Any:
    data = getattr(font, "font_bytes", None)
    if not isinstance(data, bytes):
        return NotImplemented
    return _make_font, (data, font.size, font.index, font.encoding, int(font.layout_engine))


def plugin() -> Plugin:
    """Return what PIL needs."""
    return Plugin(
        subclasses=(
            (named("PIL.ImageDraw.ImageDraw"), _draw),
            (named("PIL.ImageFont.FreeTypeFont"), _font),
        )
    )
