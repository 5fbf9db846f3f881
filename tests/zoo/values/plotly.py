"""What people keep of plotly in notebooks, with what must be true of it before the crash and after the restore."""

from __future__ import annotations

from durable_nb.testing.zoo import Value

LIBRARY = "plotly"
SETUP = """\
import plotly.express as px
import plotly.graph_objects as go
import plotly.io as pio
from plotly.subplots import make_subplots
"""
VALUES = [
    Value(
        cls="plotly.graph_objects.Figure",
        make="go.Figure(go.Scatter(x=[1, 2], y=[3, 4], name='a'), layout={'title': 't'})",
        check="x.data[0].name == 'a' and list(x.data[0].y) == [3, 4] and x.layout.title.text == 't'"
        " and x.update_layout(height=99).layout.height == 99",
        keeps="exact",
    ),
    Value(
        cls="plotly.graph_objects.Figure",
        make="px.scatter(x=[1, 2], y=[2, 1], color=['u', 'v'])",
        check="len(x.data) == 2 and x.layout.template.layout.colorway is not None",
        keeps="exact",
        note="made by plotly express",
    ),
    Value(
        cls="plotly.graph_objects.Figure",
        make="make_subplots(1, 2)",
        check="x.add_trace(go.Bar(y=[1]), row=1, col=2).data[0].xaxis == 'x2'",
        keeps="exact",
        note="with a grid of subplots",
    ),
    Value(cls="plotly.graph_objects.Bar", make="go.Bar(y=[1, 2])", check="list(x.y) == [1, 2]", keeps="exact"),
    Value(cls="plotly.graph_objects.Layout", make="go.Layout(title='t')", check="x.title.text == 't'", keeps="exact"),
    Value(
        cls="plotly.io._templates.TemplatesConfig",
        make="pio.templates",
        check="x is pio.templates and x.default == 'plotly'",
        keeps="exact",
        note="the templates of the process",
    ),
]
