"""Values of websockets."""

from __future__ import annotations

from durable_nb.testing.zoo import Value

LIBRARY = "websockets"
SETUP = "import websockets\nimport websockets.datastructures\nimport websockets.exceptions\nimport websockets.frames\nimport websockets.http11\nimport websockets.uri"
VALUES = [
    Value(
        cls="websockets.datastructures.Headers",
        make="websockets.datastructures.Headers([('A', 'b')])",
        check="x['a'] == 'b'",
        keeps="exact",
    ),
    Value(
        cls="websockets.frames.Frame",
        make="websockets.frames.Frame(websockets.frames.Opcode.TEXT, b'a')",
        check="x.data == b'a' and x.opcode is websockets.frames.Opcode.TEXT",
        keeps="exact",
    ),
    Value(
        cls="websockets.frames.Close",
        make="websockets.frames.Close(1000, 'bye')",
        check="x.code == 1000 and x.reason == 'bye'",
        keeps="exact",
    ),
    Value(
        cls="websockets.uri.WebSocketURI",
        make="websockets.uri.parse_uri('wss://site.test/p')",
        check="x.secure and x.port == 443",
        keeps="exact",
    ),
    Value(
        cls="websockets.exceptions.ConnectionClosedOK",
        make="websockets.exceptions.ConnectionClosedOK(websockets.frames.Close(1000, 'bye'), None)",
        check="x.rcvd.code == 1000",
        keeps="equal",
        note="its traceback is gone",
    ),
]
