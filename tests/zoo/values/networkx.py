"""What people keep of networkx in notebooks, with what must be true of it before the crash and after the restore."""

from __future__ import annotations

from durable_nb.testing.zoo import Value

LIBRARY = "networkx"
SETUP = """\
import networkx as nx

graph = nx.Graph([(1, 2, {"w": 3}), (2, 3)], name="g")
graph.nodes[1]["colour"] = "red"
tags = ["shared"]
graph.nodes[2]["tags"] = tags
"""
VALUES = [
    Value(
        cls="networkx.Graph",
        make="graph",
        check="x.graph == {'name': 'g'} and x.edges[1, 2] == {'w': 3} and x.nodes[2]['tags'] is tags"
        " and x[1] == {2: {'w': 3}}",
        keeps="exact",
        note="with attributes that other variables hold too",
    ),
    Value(
        cls="networkx.DiGraph",
        make="nx.DiGraph({1: [2], 2: [3]})",
        check="list(nx.topological_sort(x)) == [1, 2, 3] and x.pred[2] == {1: {}}",
        keeps="exact",
    ),
    Value(
        cls="networkx.MultiGraph",
        make="nx.MultiGraph([(1, 2, 'a'), (1, 2, 'b')])",
        check="x.number_of_edges(1, 2) == 2 and set(x[1][2]) == {'a', 'b'}",
        keeps="exact",
    ),
    Value(
        cls="networkx.MultiDiGraph",
        make="nx.MultiDiGraph([(1, 2), (1, 2)])",
        check="x.out_degree(1) == 2",
        keeps="exact",
    ),
    Value(
        cls="networkx.classes.reportviews.NodeView",
        make="graph.nodes",
        check="x[1] is graph.nodes[1] and list(x) == [1, 2, 3]",
        keeps="exact",
    ),
    Value(
        cls="networkx.classes.reportviews.EdgeView",
        make="graph.edges",
        check="x[1, 2] is graph.edges[1, 2] and len(x) == 2",
        keeps="exact",
    ),
    Value(cls="networkx.classes.reportviews.DegreeView", make="graph.degree", check="x[2] == 2", keeps="exact"),
    Value(
        cls="networkx.classes.coreviews.AtlasView", make="graph[1]", check="x[2] is graph.edges[1, 2]", keeps="exact"
    ),
    Value(
        cls="networkx.Graph",
        make="graph.subgraph([1, 2])",
        check="list(x.edges) == [(1, 2)] and x.nodes[1] is graph.nodes[1]"
        " and [graph.add_edge(2, 1, v=1), x.edges[1, 2]['v']][1] == 1",
        keeps="exact",
        note="a view of a graph in another variable",
    ),
    Value(
        cls="networkx.DiGraph",
        make="nx.reverse_view(nx.DiGraph([(1, 2)]))",
        check="list(x.edges) == [(2, 1)]",
        keeps="exact",
        note="a view",
    ),
    Value(
        cls="networkx.PlanarEmbedding",
        make="nx.check_planarity(graph)[1]",
        check="x.check_structure() is None",
        keeps="exact",
    ),
    Value(
        cls="generator",
        make="nx.connected_components(graph)",
        check="next(x) == {1, 2, 3}",
        keeps="reported",
        note="a generator; ask again in a cell",
    ),
]
