"""What people keep of Altair in notebooks, with what must be true of it before the crash and after the restore."""

from __future__ import annotations

from durable_nb.testing.zoo import Value

LIBRARY = "altair"
SETUP = """\
import altair as alt
import pandas as pd

frame = pd.DataFrame({"a": [1, 2], "b": [2, 1]})
chart = alt.Chart(frame).mark_point().encode(x="a", y="b:Q")
"""
VALUES = [
    Value(
        cls="altair.Chart",
        make="chart",
        check="x.data is frame and x.to_dict()['encoding']['x']['field'] == 'a' and x.mark == 'point'",
        keeps="exact",
    ),
    Value(
        cls="altair.LayerChart",
        make="chart + chart.mark_line()",
        check="len(x.layer) == 2 and len(x.to_dict()['layer']) == 2",
        keeps="exact",
    ),
    Value(cls="altair.HConcatChart", make="chart | chart", check="len(x.hconcat) == 2", keeps="exact"),
    Value(
        cls="altair.Parameter",
        make="alt.selection_interval(name='brush')",
        check="x.name == 'brush' and chart.add_params(x).to_dict()['params'][0]['name'] == 'brush'",
        keeps="exact",
    ),
    Value(
        cls="altair.X",
        make="alt.X('a:Q', bin=True)",
        check="x.to_dict(context={'data': frame})['bin'] is True",
        keeps="exact",
    ),
]
