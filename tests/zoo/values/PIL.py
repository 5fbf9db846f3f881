"""What people keep of PIL in notebooks, with what must be true of it before the crash and after the restore."""

from __future__ import annotations

from durable_nb.testing.zoo import Value

LIBRARY = "PIL"
SETUP = """\
from PIL import Image, ImageDraw, ImageEnhance, ImageFilter, ImageFont

canvas = Image.new("RGB", (4, 3), "red")
canvas.save("red.png", dpi=(72, 72))
"""
VALUES = [
    Value(
        cls="PIL.Image.Image",
        make="marked = Image.new('RGBA', (2, 2), (1, 2, 3, 4))\nmarked.info['by'] = 'me'\nmarked",
        check="x.getpixel((0, 0)) == (1, 2, 3, 4) and x.info == {'by': 'me'} and x.size == (2, 2)",
        keeps="exact",
    ),
    Value(
        cls="PIL.Image.Image",
        make="canvas.convert('P', palette=Image.Palette.ADAPTIVE, colors=2)",
        check="x.mode == 'P' and x.convert('RGB').getpixel((0, 0))[0] > 250",
        keeps="exact",
        note="with a palette",
    ),
    Value(
        cls="PIL.PngImagePlugin.PngImageFile",
        make="Image.open('red.png')",
        check="x.getpixel((3, 2)) == (255, 0, 0) and x.format == 'PNG' and round(x.info['dpi'][0]) == 72",
        keeps="equal",
        note="an image that was opened comes back with its pixels loaded, apart from its file",
    ),
    Value(
        cls="PIL.ImageDraw.ImageDraw",
        make="ImageDraw.Draw(canvas)",
        check="[x.point((0, 0), 'blue'), canvas.getpixel((0, 0))][1] == (0, 0, 255)",
        keeps="exact",
        note="draws on the image in another variable",
    ),
    Value(
        cls="PIL.ImageFont.FreeTypeFont",
        make="ImageFont.load_default(20)",
        check="x.size == 20 and x.getbbox('a')[2] > 0",
        keeps="exact",
    ),
    Value(
        cls="PIL.ImageFilter.Kernel",
        make="ImageFilter.Kernel((3, 3), range(9), scale=36)",
        check="canvas.filter(x).size == (4, 3)",
        keeps="exact",
    ),
    Value(
        cls="PIL.ImageEnhance.Contrast",
        make="ImageEnhance.Contrast(canvas)",
        check="x.image is canvas and x.enhance(0.5).size == (4, 3)",
        keeps="exact",
    ),
]
