"""Streams of a kernel are waited for only while something of them is on its way."""

from __future__ import annotations

import threading
from collections import defaultdict
from io import StringIO
from types import SimpleNamespace

from durable_nb.kernel.streams import flush


class Stream:
    """What `flush` looks at of a stream of ipykernel: buffers, and a thread that takes them out and passes them on."""

    def __init__(self) -> None:
        self._buffers: defaultdict[object, StringIO] = defaultdict(StringIO)
        self.closed = False
        self.flushed = 0
        self.taken, self.passing = threading.Event(), threading.Event()
        self.out, self.leaving = threading.Event(), threading.Event()
        self.pub_thread = SimpleNamespace(thread=threading.Thread(target=self._work, daemon=True))

    def _work(self) -> None:
        self._flush()
        self.out.set()
        self.leaving.wait(60)

    def _flush(self) -> None:
        self._pass_on()

    def _pass_on(self) -> None:
        self._buffers = defaultdict(StringIO)
        self.taken.set()
        self.passing.wait(60)

    def flush(self) -> None:
        """Count the calls."""
        self.flushed += 1


Stream.__module__ = "ipykernel.iostream"


def test_an_empty_stream_at_rest_is_not_flushed() -> None:
    """Where nothing is held and the thread is outside of its work there is nothing to wait for."""
    stream = Stream()
    stream.passing.set()
    stream.pub_thread.thread.start()
    assert stream.out.wait(60)
    flush([stream])
    stream.leaving.set()
    stream.pub_thread.thread.join()
    assert 0 == stream.flushed


def test_what_is_held_or_on_its_way_is_waited_for() -> None:
    """A text in the buffers is flushed, and so is one that the thread has taken out and not passed on yet."""
    stream = Stream()
    stream._buffers["parent"].write("held")
    stream.pub_thread.thread.start()
    assert stream.taken.wait(60)
    flush([stream])  # the buffers are empty, and the text is in the thread's hands
    assert 1 == stream.flushed
    stream._buffers["parent"].write("more")
    stream.passing.set()
    flush([stream])
    assert 2 == stream.flushed
    stream.leaving.set()
    stream.pub_thread.thread.join()


def test_a_stream_whose_thread_is_gone_is_flushed() -> None:
    """Without a thread nothing is known, as with a stream that is not the kernel's."""
    stream = Stream()
    flush([stream])
    text = StringIO()
    flush([text])
    assert 1 == stream.flushed
