"""Documents, replies and pools: what the zoo does not show with one small value of each."""

from __future__ import annotations

import sys
import threading
from typing import Any

import pytest

from durable_nb.capture.codec import Codec, Failed
from durable_nb.capture.reducers import load


def _again(**values: Any) -> dict[str, Any]:
    """Dump the values as one group and load them."""
    codec = Codec({}, load(sys.modules))
    dumped = codec.dump(list(values), values)
    return codec.load(dumped.pickle, [bytearray(b) for b in dumped.buffers], lambda name: values[name])


def test_long_and_deep_documents_of_bs4_come_back() -> None:
    """No link is followed inside another one: neither many elements nor deep nesting is too much."""
    bs4 = pytest.importorskip("bs4")
    wide = bs4.BeautifulSoup("<p>a</p>" * 5000, "html.parser")
    deep = bs4.BeautifulSoup("<div>" * 300 + "x" + "</div>" * 300, "html.parser")
    found = _again(wide=wide, deep=deep, last=wide.find_all("p")[-1], inner=deep.find(string="x"))
    assert (5000, 300) == (len(found["wide"].find_all("p")), len(found["deep"].find_all("div")))
    assert found["last"] is found["wide"].contents[-1]
    assert found["inner"] is found["deep"].find(string="x")
    assert list(map(type, wide.descendants)) == list(map(type, found["wide"].descendants))
    assert str(wide) == str(found["wide"])


def test_an_element_of_bs4_alone_brings_its_document() -> None:
    """A variable that holds one element still reaches its neighbours and its document."""
    bs4 = pytest.importorskip("bs4")
    tag = bs4.BeautifulSoup("<p><a href='1'>t</a><b>u</b></p>", "html.parser").a
    found = _again(tag=tag)["tag"]
    assert ("1", "b", "p") == (found["href"], found.next_sibling.name, found.parent.name)
    assert type(found.parent.parent) is bs4.BeautifulSoup


def test_a_document_of_lxml_that_xml_cannot_say_is_reported() -> None:
    """Whether a document can be read again is found out for each one, not once for their class."""
    html = pytest.importorskip("lxml.html")
    fine, odd = html.fromstring("<div><a href='1'>t</a></div>"), html.fromstring("<div @click='go'>t</div>")
    found = _again(fine=fine, inner=fine[0])
    assert (found["fine"], "1") == (found["inner"].getparent(), found["inner"].get("href"))
    with pytest.raises(Failed, match="cannot be read again"):
        _again(odd=odd)


def test_a_reply_that_is_still_received_is_not_read_by_looking() -> None:
    """Describing it neither reads its content nor marks it as read."""
    requests = pytest.importorskip("requests")

    class Line:
        def read(self, *_: Any) -> bytes:
            raise AssertionError("it was read")

    response = requests.Response()
    response.raw = Line()
    with pytest.raises(Failed, match="still being received"):
        _again(x=response)
    assert response._content_consumed is False


def test_digest_login_has_a_state_for_each_thread_again() -> None:
    """What came back can log in, in any thread."""
    auth = pytest.importorskip("requests").auth.HTTPDigestAuth("u", "p")
    auth.init_per_thread_state()
    found = _again(auth=auth)["auth"]
    worker = threading.Thread(target=found.init_per_thread_state)
    worker.start()
    worker.join()
    assert (auth, False) == (found, hasattr(found._thread_local, "init"))


def test_a_closed_pool_of_urllib3_stays_closed() -> None:
    """A pool in use comes back with room for as many connections, a closed one closed."""
    urllib3 = pytest.importorskip("urllib3")
    pool, closed = urllib3.HTTPConnectionPool("localhost", maxsize=3), urllib3.HTTPConnectionPool("localhost")
    pool.pool.get()
    closed.close()
    found = _again(pool=pool, closed=closed)
    assert (3, 3, None) == (found["pool"].pool.maxsize, found["pool"].pool.qsize(), found["closed"].pool)


def test_a_proxy_of_werkzeug_that_no_module_has_is_reported() -> None:
    """`flask.request` is the module's; one made by hand stands for something of the lost kernel."""
    local = pytest.importorskip("werkzeug.local")
    flask = pytest.importorskip("flask")
    assert _again(x=flask.request)["x"] is flask.request
    with pytest.raises(Failed, match="werkzeug proxy"):
        _again(x=local.LocalProxy(lambda: 3))
