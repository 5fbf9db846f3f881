"""What people keep of matplotlib in notebooks, with what must be true of it before the crash and after the restore."""

from __future__ import annotations

from durable_nb.testing.zoo import Value

LIBRARY = "matplotlib"
SETUP = """\
import io
import numpy as np
import matplotlib as mpl
import matplotlib.pyplot as plt
from matplotlib import animation, cm, colors, dates, font_manager, gridspec, patches, ticker, transforms
from matplotlib.widgets import Slider

fig, ax = plt.subplots()
(line,) = ax.plot([1, 3, 2], label="a")
ax.set(title="t", xlabel="x")
drawn = {}

def picture(figure):
    stream = io.BytesIO()
    figure.savefig(stream, format="raw", dpi=40)
    return hash(stream.getvalue()) and len(stream.getvalue())

def same_artist(artist):
    return artist.figure is fig and artist in ax.get_children()
"""
VALUES = [
    Value(
        cls="matplotlib.figure.Figure",
        make="fig",
        check="x.axes[0] is ax and picture(x) > 0 and ax.get_title() == 't'",
        keeps="exact",
    ),
    Value(
        cls="matplotlib.axes.Axes",
        make="ax",
        check="x.figure is fig and x.lines[0] is line and x.get_xlabel() == 'x'"
        " and x.get_legend_handles_labels()[1][0] == 'a'",
        keeps="exact",
        note="of a figure in another variable",
    ),
    Value(
        cls="matplotlib.lines.Line2D",
        make="line",
        check="x in ax.lines and x.get_ydata().tolist() == [1, 3, 2]"
        " and [x.set_color('red'), ax.lines[0].get_color()][1] == 'red'",
        keeps="exact",
    ),
    Value(
        cls="matplotlib.collections.PathCollection",
        make="ax.scatter([1, 2], [1, 2], c=[0.1, 0.9])",
        check="same_artist(x) and x.get_array().tolist() == [0.1, 0.9]",
        keeps="exact",
    ),
    Value(
        cls="matplotlib.container.BarContainer",
        make="ax.bar(['u', 'v'], [1, 2])",
        check="x in ax.containers and x.patches[1].get_height() == 2 and x.patches[0] in ax.patches",
        keeps="exact",
    ),
    Value(
        cls="matplotlib.image.AxesImage",
        make="ax.imshow(np.eye(3), cmap='magma', vmin=0, vmax=2)",
        check="same_artist(x) and x.get_clim() == (0, 2) and x.cmap.name == 'magma'",
        keeps="exact",
    ),
    Value(
        cls="matplotlib.colorbar.Colorbar",
        make="heat, heat_ax = plt.subplots()\nheat.colorbar(heat_ax.imshow(np.eye(2)))",
        check="x.ax in heat.axes and x.mappable is heat_ax.images[0]",
        keeps="exact",
    ),
    Value(
        cls="matplotlib.legend.Legend",
        make="ax.legend(title='l')",
        check="x is ax.get_legend() and x.get_title().get_text() == 'l'",
        keeps="exact",
    ),
    Value(
        cls="matplotlib.text.Annotation",
        make="ax.annotate('here', (1, 1), (2, 2), arrowprops={'arrowstyle': '->'})",
        check="same_artist(x) and x.get_text() == 'here' and x.arrow_patch is not None",
        keeps="exact",
    ),
    Value(
        cls="matplotlib.contour.QuadContourSet",
        make="plt.figure().add_subplot().contour(np.outer([1, 2, 3], [1, 2, 3]), levels=[2, 4])",
        check="x.levels.tolist() == [2, 4] and x in x.axes.collections",
        keeps="exact",
    ),
    Value(
        cls="mpl_toolkits.mplot3d.axes3d.Axes3D",
        make="plt.figure().add_subplot(projection='3d', elev=10)",
        check="x.elev == 10 and picture(x.figure) > 0",
        keeps="exact",
    ),
    Value(
        cls="matplotlib.projections.polar.PolarAxes",
        make="plt.figure().add_subplot(projection='polar')",
        check="x.name == 'polar' and picture(x.figure) > 0",
        keeps="exact",
    ),
    Value(
        cls="matplotlib.axes.Axes",
        make="mosaic, parts = plt.subplot_mosaic('AB', sharey=True)\nparts",
        check="x is parts and x['A'].figure is mosaic and x['B'] in mosaic.axes",
        keeps="exact",
        note="a mosaic",
    ),
    Value(
        cls="matplotlib.axes.Axes",
        make="shared, (left, right) = plt.subplots(1, 2, sharex=True)\n[left, right, left.twinx()]",
        check="x[0].get_shared_x_axes().joined(x[0], x[1]) and [x[0].set_xlim(0, 7), x[1].get_xlim()][1] == (0, 7)"
        " and [x[0].set_xlim(0, 8), x[2].get_xlim()][1] == (0, 8)",
        keeps="exact",
        note="sharing an axis",
    ),
    Value(
        cls="matplotlib.gridspec.GridSpec",
        make="gridspec.GridSpec(2, 3, width_ratios=[1, 2, 3])",
        check="x.get_width_ratios() == [1, 2, 3]",
        keeps="exact",
    ),
    Value(
        cls="matplotlib.colors.ListedColormap",
        make="plt.get_cmap('viridis')",
        check="x == plt.get_cmap('viridis') and x(0.0) == plt.get_cmap('viridis')(0.0)",
        keeps="exact",
    ),
    Value(
        cls="matplotlib.colors.LogNorm", make="colors.LogNorm(1, 100)", check="abs(x(10) - 0.5) < 1e-12", keeps="exact"
    ),
    Value(
        cls="matplotlib.cm.ScalarMappable",
        make="cm.ScalarMappable(colors.Normalize(0, 2), 'gray')",
        check="x.to_rgba(1)[0] > 0.4",
        keeps="exact",
    ),
    Value(
        cls="matplotlib.patches.Circle",
        make="patches.Circle((1, 2), 3)",
        check="x.center == (1, 2) and x.radius == 3",
        keeps="exact",
    ),
    Value(
        cls="matplotlib.ticker.FuncFormatter",
        make="suffix = ' km'\nticker.FuncFormatter(lambda v, p: f'{v}{suffix}')",
        check="x(3, 0) == '3 km'",
        keeps="exact",
    ),
    Value(
        cls="matplotlib.dates.DateFormatter", make="dates.DateFormatter('%Y')", check="x(0) == '1970'", keeps="exact"
    ),
    Value(
        cls="matplotlib.transforms.Affine2D",
        make="transforms.Affine2D().scale(2)",
        check="x.transform((1, 1)).tolist() == [2, 2]",
        keeps="exact",
    ),
    Value(
        cls="matplotlib.font_manager.FontProperties",
        make="font_manager.FontProperties(size=3)",
        check="x.get_size() == 3",
        keeps="exact",
    ),
    Value(
        cls="matplotlib.RcParams",
        make="plt.rcParams",
        check="x is mpl.rcParams",
        keeps="exact",
        note="the settings of the process",
    ),
    Value(
        cls="matplotlib.RcParams",
        make="plt.rcParams.copy()",
        check="x is not mpl.rcParams and x['font.size'] == 10",
        keeps="exact",
        note="a copy of them",
    ),
    Value(cls="matplotlib.cm.ColormapRegistry", make="mpl.colormaps", check="x is mpl.colormaps", keeps="exact"),
    Value(
        cls="matplotlib.animation.FuncAnimation",
        make="turning = plt.figure()\nanimation.FuncAnimation(turning, lambda i: [], frames=2, cache_frame_data=False)",
        check="x._draw_was_started is False and [setattr(x, '_draw_was_started', True), True][1]",
        keeps="reported",
        note="lives on the events of its figure",
    ),
    Value(
        cls="matplotlib.widgets.Slider",
        make="Slider(plt.figure().add_subplot(), 's', 0, 1)",
        check="x.valmax == 1",
        keeps="reported",
        note="lives on the events of its figure",
    ),
    Value(
        cls="matplotlib.backend_bases.FigureCanvasBase",
        make="plt.figure().canvas",
        check="x.figure is not None",
        keeps="reported",
        note="belongs to the window of a figure; keep the figure",
    ),
]
