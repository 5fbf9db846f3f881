"""What people keep of shapely in notebooks, with what must be true of it before the crash and after the restore."""

from __future__ import annotations

from durable_nb.testing.zoo import Value

LIBRARY = "shapely"
SETUP = """\
import numpy as np
import shapely
from shapely.geometry import LineString, MultiPoint, Point, Polygon
from shapely.prepared import prep

square = Polygon([(0, 0), (1, 0), (1, 1), (0, 1)], holes=[[(0.4, 0.4), (0.6, 0.4), (0.5, 0.6)]])
"""
VALUES = [
    Value(
        cls="shapely.Point",
        make="shapely.set_srid(Point(1, 2, 3), 4326)",
        check="x.coords[0] == (1, 2, 3) and shapely.get_srid(x) == 4326",
        keeps="exact",
    ),
    Value(
        cls="shapely.Polygon",
        make="square",
        check="x.area < 1 and len(x.interiors) == 1 and x.equals(square)",
        keeps="exact",
    ),
    Value(cls="shapely.LineString", make="LineString([(0, 0), (3, 4)])", check="x.length == 5", keeps="exact"),
    Value(cls="shapely.MultiPoint", make="MultiPoint([(0, 0), (1, 1)])", check="len(x.geoms) == 2", keeps="exact"),
    Value(
        cls="shapely.STRtree",
        make="shapely.STRtree([Point(0, 0), Point(5, 5)])",
        check="x.nearest(Point(4, 4)) == 1 and len(x.geometries) == 2",
        keeps="exact",
    ),
    Value(
        cls="shapely.prepared.PreparedGeometry",
        make="prep(square)",
        check="x.context.equals(square) and x.contains(Point(0.1, 0.1))",
        keeps="exact",
    ),
    Value(
        cls="numpy.ndarray",
        make="np.array([Point(0, 0), None])",
        check="x[0] == Point(0, 0) and x[1] is None",
        keeps="exact",
        note="of geometries",
    ),
]
