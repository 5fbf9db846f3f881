"""Values of msgspec."""

from __future__ import annotations

from durable_nb.testing.zoo import Value

LIBRARY = "msgspec"
SETUP = """
import dataclasses

import msgspec

@dataclasses.dataclass
class Point:
    x: int

def refused(call):
    try:
        call()
    except msgspec.MsgspecError:
        return True
    return False
"""
NO_STRUCT = "its class is made by a metaclass in C, which takes no class apart"
VALUES = [
    Value(
        cls="msgspec.Struct",
        make="msgspec.defstruct('Made', [('x', int)])(1)",
        check="x.x == 1",
        keeps="reported",
        note=NO_STRUCT,
    ),
    Value(
        cls="type",
        make="msgspec.defstruct('Made', [('x', int)])",
        check="x(1).x == 1",
        keeps="reported",
        note=f"a struct class of the notebook: {NO_STRUCT}",
    ),
    Value(
        cls="msgspec.json.Encoder",
        make="msgspec.json.Encoder(order='sorted', enc_hook=str)",
        check="x.encode({'b': 1, 'a': 1j}) == b'{\"a\":\"1j\",\"b\":1}'",
        keeps="exact",
    ),
    Value(
        cls="msgspec.json.Decoder",
        make="msgspec.json.Decoder(list[Point])",
        check="x.decode(b'[{\"x\":1}]') == [Point(1)] and x.type == list[Point] and refused(lambda: x.decode(b'[{}]'))",
        keeps="exact",
    ),
    Value(
        cls="msgspec.msgpack.Encoder",
        make="msgspec.msgpack.Encoder(decimal_format='number')",
        check="x.encode([1]) == b'\\x91\\x01' and x.decimal_format == 'number'",
        keeps="exact",
    ),
    Value(
        cls="msgspec.msgpack.Decoder",
        make="msgspec.msgpack.Decoder(dict[str, int], strict=False)",
        check="x.decode(msgspec.msgpack.encode({'a': '1'})) == {'a': 1}",
        keeps="exact",
    ),
    Value(cls="msgspec.Raw", make="msgspec.Raw(b'[1]')", check="bytes(x) == b'[1]'", keeps="exact"),
    Value(
        cls="msgspec.Meta", make="msgspec.Meta(gt=3, title='t')", check="x.gt == 3 and x.title == 't'", keeps="exact"
    ),
]
