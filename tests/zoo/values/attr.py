"""Values of attr."""

from __future__ import annotations

from durable_nb.testing.zoo import Value

LIBRARY = "attr"
SETUP = """
import attr
import attrs

@attrs.define
class Point:
    x: int = attrs.field(validator=attrs.validators.instance_of(int), converter=int)
    y: int = 0
    tags: list = attrs.field(factory=list, repr=False)

@attrs.frozen(order=True)
class Version:
    major: int
    minor: int = attrs.field(default=0, metadata={"m": 1})

def refused(call):
    try:
        call()
    except (ValueError, TypeError, AttributeError):
        return True
    return False
"""
VALUES = [
    Value(
        cls="object",
        make="Point('3')",
        check="(x.x, x.y, x.tags) == (3, 0, []) and type(x) is Point and refused(lambda: Point('a')) "
        "and attrs.asdict(x) == {'x': 3, 'y': 0, 'tags': []} and repr(x) == 'Point(x=3, y=0)'",
        keeps="exact",
        note="of a class of the notebook with slots, validators, converters",
    ),
    Value(
        cls="object",
        make="Version(1, 2)",
        check="x < Version(2) and hash(x) == hash(Version(1, 2)) and refused(lambda: setattr(x, 'major', 2)) "
        "and attrs.evolve(x, minor=5).minor == 5",
        keeps="exact",
        note="a frozen one",
    ),
    Value(
        cls="type",
        make="Point",
        check="x is Point and [f.name for f in attrs.fields(x)] == ['x', 'y', 'tags'] and x('4').x == 4 "
        "and refused(lambda: setattr(x(1), 'other', 1))",
        keeps="exact",
        note="a class of the notebook",
    ),
    Value(
        cls="attr.Attribute",
        make="attrs.fields(Version).minor",
        check="x.default == 0 and x.metadata['m'] == 1 and x is attrs.fields(Version).minor",
        keeps="exact",
    ),
    Value(
        cls="attr.Factory",
        make="attrs.Factory(list)",
        check="x.factory is list and not x.takes_self",
        keeps="exact",
    ),
    Value(
        cls="object",
        make="attr.make_class('Made', {'a': attr.ib(default=3)}, slots=True)()",
        check="x.a == 3 and type(x).__name__ == 'Made' and attr.fields(type(x)).a.default == 3",
        keeps="exact",
        note="of a class made by make_class",
    ),
]
