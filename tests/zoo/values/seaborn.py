"""What people keep of seaborn in notebooks, with what must be true of it before the crash and after the restore."""

from __future__ import annotations

from durable_nb.testing.zoo import Value

LIBRARY = "seaborn"
SETUP = """\
import pandas as pd
import seaborn as sns
import seaborn.objects as so

frame = pd.DataFrame({"a": [1.0, 2.0, 3.0, 4.0], "b": [2.0, 1.0, 4.0, 3.0], "k": list("aabb")})
"""
VALUES = [
    Value(
        cls="seaborn.FacetGrid",
        make="grid = sns.FacetGrid(frame, col='k')\ngrid.map(sns.scatterplot, 'a', 'b') is None\ngrid",
        check="x.axes.shape == (1, 2) and x.axes[0, 0] in x.figure.axes and x.data.shape == (4, 3)"
        " and x.set_titles('{col_name}') is x",
        keeps="exact",
    ),
    Value(
        cls="seaborn.PairGrid",
        make="sns.pairplot(frame)",
        check="x.axes.shape == (2, 2) and x.figure.axes[0] in x.axes.ravel()",
        keeps="exact",
    ),
    Value(
        cls="seaborn.JointGrid",
        make="sns.jointplot(data=frame, x='a', y='b')",
        check="x.ax_joint in x.figure.axes and x.x.tolist() == [1, 2, 3, 4]",
        keeps="exact",
    ),
    Value(
        cls="seaborn.matrix.ClusterGrid",
        make="sns.clustermap(frame[['a', 'b']])",
        check="x.data2d.shape == (4, 2) and len(x.dendrogram_row.reordered_ind) == 4",
        keeps="exact",
    ),
    Value(
        cls="seaborn.palettes._ColorPalette",
        make="sns.color_palette('rocket', 3)",
        check="len(x) == 3 and x.as_hex()[0].startswith('#')",
        keeps="exact",
    ),
    Value(
        cls="seaborn._core.plot.Plot",
        make="so.Plot(frame, x='a', y='b').add(so.Dot()).facet('k')",
        check="len(x._layers) == 1 and x.plot() is not None",
        keeps="exact",
    ),
]
