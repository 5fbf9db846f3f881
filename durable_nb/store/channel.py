"""Messages between a kernel and its writer over a socket: framed, in order, never half of one.

Used by `writer` and `writer_client`. A message is a promise of its sender only; what is durable, the messages say.
"""

from __future__ import annotations

import contextlib
import select
import socket
import struct
import threading
from collections import deque

__all__ = ["Channel"]

_FRAME = struct.Struct("<cI")
_READ_BYTES = 1 << 16  # a larger buffer is memory that the system maps and takes back each time


class Channel:
    """One end of the conversation. `send` never waits for the other side to read; `pump` sends what was left."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._sock.setblocking(False)
        self._lock = threading.Lock()
        self._outbox = bytearray()
        self._inbox = bytearray()
        self._messages: deque[tuple[bytes, bytes]] = deque()
        self.ended = False  # the other side is gone; what it sent before can still be taken

    def fileno(self) -> int:
        """Return the descriptor to poll."""
        return self._sock.fileno()

    @property
    def waiting(self) -> bool:
        """Whether something is left to send."""
        return bool(self._outbox)

    def send(self, kind: bytes, payload: bytes) -> None:
        """Send a message, or keep what the socket does not take now for `pump`."""
        with self._lock:
            self._outbox += _FRAME.pack(kind, len(payload)) + payload
            self._push()

    def pump(self) -> None:
        """Send more of what is left."""
        with self._lock:
            self._push()

    def flush(self) -> None:
        """Send all that is left; returns early when the other side is gone."""
        while self._outbox and not self.ended:
            select.select([], [self._sock], [], 0.1)
            self.pump()

    def take(self) -> tuple[bytes, bytes] | None:
        """Return the next message that has arrived, None if there is none now."""
        if not self._messages:
            self._read()
        return self._messages.popleft() if self._messages else None

    def close(self) -> None:
        """Hang up."""
        self.ended = True
        self._sock.close()

    def _push(self) -> None:
        try:
            while self._outbox and not self.ended:
                del self._outbox[: self._sock.send(self._outbox)]
        except BlockingIOError:
            return
        except OSError:
            self.ended = True

    def _read(self) -> None:
        while not self.ended:
            try:
                data = self._sock.recv(_READ_BYTES)
            except BlockingIOError:
                break
            except OSError:
                data = b""
            if not data:
                self.ended = True
                break
            self._inbox += data
            if len(data) < _READ_BYTES:
                break  # that was all, and if the other side has ended, the next read says so
        while len(self._inbox) >= _FRAME.size:
            kind, length = _FRAME.unpack_from(self._inbox)
            end = _FRAME.size + length
            if len(self._inbox) < end:
                break
            self._messages.append((kind, bytes(self._inbox[_FRAME.size : end])))
            del self._inbox[:end]


def pair() -> tuple[socket.socket, socket.socket]:
    """Return the two ends of a new conversation."""
    ours, theirs = socket.socketpair()
    for end in (ours, theirs):
        with contextlib.suppress(OSError):
            end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
    return ours, theirs
