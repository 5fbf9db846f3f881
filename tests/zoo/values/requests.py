"""Values of requests."""

from __future__ import annotations

from durable_nb.testing.zoo import Value

LIBRARY = "requests"
SETUP = """
import io

import requests

def answer(body=b'{"a": 1}'):
    # A reply as the library makes it, without a network.
    response = requests.Response()
    response.status_code, response.reason, response.url = 200, "OK", "http://site.test/"
    response.headers["Content-Type"] = "application/json"
    response.encoding = "utf-8"
    response.raw = io.BytesIO(body)
    response.request = requests.Request("GET", "http://site.test/").prepare()
    response.cookies.set("c", "1")
    return response

def failure():
    response = answer()
    response.content
    return requests.HTTPError("404", response=response)
"""
VALUES = [
    Value(
        cls="requests.sessions.Session",
        make="session = requests.Session()\nsession.headers['A'] = 'b'\nsession.cookies.set('c', '1')\n"
        "session.auth = ('u', 'p')\nsession.verify = False\nsession",
        check="x.headers['a'] == 'b' and x.cookies['c'] == '1' and x.auth == ('u', 'p') and not x.verify "
        "and type(x.get_adapter('http://a')) is requests.adapters.HTTPAdapter",
        keeps="equal",
        note="its pool of connections is a new, empty one",
    ),
    Value(
        cls="requests.models.Response",
        make="reply = answer()\nreply.content\nreply",
        check="x.json() == {'a': 1} and x.ok and x.cookies['c'] == '1' and x.request.method == 'GET'",
        keeps="equal",
        note="with its content; the connection that it came from is not there",
    ),
    Value(
        cls="requests.models.Response",
        make="answer()",
        check="not x._content_consumed and x.content == b'{\"a\": 1}'",
        keeps="reported",
        note="still being received: saving it must not read it",
    ),
    Value(
        cls="requests.models.Request",
        make="requests.Request('POST', 'http://site.test', json={'a': 1}, params={'b': 2})",
        check="x.prepare().url == 'http://site.test/?b=2' and x.json == {'a': 1}",
        keeps="exact",
    ),
    Value(
        cls="requests.models.PreparedRequest",
        make="requests.Request('POST', 'http://site.test', json={'a': 1}).prepare()",
        check="x.body == b'{\"a\": 1}' and x.headers['Content-Type'] == 'application/json' and x.method == 'POST'",
        keeps="exact",
    ),
    Value(
        cls="requests.cookies.RequestsCookieJar",
        make="jar = requests.cookies.RequestsCookieJar()\njar.set('a', '1', domain='site.test', path='/p')\njar",
        check="x.get('a', path='/p') == '1' and x.list_domains() == ['site.test']",
        keeps="exact",
    ),
    Value(
        cls="requests.structures.CaseInsensitiveDict",
        make="requests.structures.CaseInsensitiveDict({'Ab': 1})",
        check="x['aB'] == 1 and list(x) == ['Ab']",
        keeps="exact",
    ),
    Value(
        cls="requests.adapters.HTTPAdapter",
        make="requests.adapters.HTTPAdapter(max_retries=3, pool_maxsize=2)",
        check="x.max_retries.total == 3 and x._pool_maxsize == 2 and x.poolmanager is not None",
        keeps="equal",
        note="its pool of connections is a new, empty one",
    ),
    Value(
        cls="requests.auth.HTTPDigestAuth",
        make="requests.auth.HTTPDigestAuth('u', 'p')",
        check="x == requests.auth.HTTPDigestAuth('u', 'p') and x.init_per_thread_state() is None",
        keeps="equal",
        note="it logs in anew with the next request",
    ),
    Value(
        cls="requests.exceptions.HTTPError",
        make="failure()",
        check="x.response.status_code == 200 and x.args == ('404',)",
        keeps="equal",
        note="its traceback is gone",
    ),
]
