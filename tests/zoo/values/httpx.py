"""Values of httpx."""

from __future__ import annotations

from durable_nb.testing.zoo import Value

LIBRARY = "httpx"
SETUP = "import httpx"
OPEN = "its connections are open only in the process that made them"
VALUES = [
    Value(
        cls="httpx.Client",
        make="httpx.Client(base_url='http://site.test', headers={'a': 'b'})",
        check="x.base_url.host == 'site.test'",
        keeps="reported",
        note=OPEN,
    ),
    Value(
        cls="httpx.AsyncClient",
        make="httpx.AsyncClient()",
        check="not x.is_closed",
        keeps="reported",
        note=OPEN,
    ),
    Value(
        cls="httpx.Request",
        make="httpx.Request('POST', 'http://site.test/p', json={'a': 1}, headers={'A': 'b'}, extensions={'timeout': 3})",
        check="x.read() == b'{\"a\":1}' and x.extensions == {'timeout': 3} and x.headers['a'] == 'b' and x.method == 'POST'",
        keeps="exact",
    ),
    Value(
        cls="httpx.Response",
        make="httpx.Response(200, json={'a': [1]}, request=httpx.Request('GET', 'http://site.test'), "
        "extensions={'http_version': b'HTTP/2'})",
        check="x.http_version == 'HTTP/2' and x.json() == {'a': [1]} and x.request.url.host == 'site.test' and x.is_success",
        keeps="exact",
        note="with its content",
    ),
    Value(
        cls="httpx.Response",
        make="httpx.Response(200, content=(part for part in [b'a', b'b']))",
        check="x.read() == b'ab'",
        keeps="reported",
        note="its content was not read",
    ),
    Value(cls="httpx.URL", make="httpx.URL('http://site.test/p?q=1')", check="x.params['q'] == '1'", keeps="exact"),
    Value(
        cls="httpx.Headers",
        make="httpx.Headers([('a', '1'), ('A', '2')])",
        check="x['a'] == '1, 2' and x.get_list('A') == ['1', '2']",
        keeps="exact",
    ),
    Value(
        cls="httpx.QueryParams",
        make="httpx.QueryParams('a=1&a=2')",
        check="x.get_list('a') == ['1', '2'] and str(x) == 'a=1&a=2'",
        keeps="exact",
    ),
    Value(
        cls="httpx.Cookies",
        make="cookies = httpx.Cookies()\ncookies.set('a', '1', domain='site.test')\ncookies",
        check="x.get('a', domain='site.test') == '1'",
        keeps="exact",
    ),
    Value(cls="httpx.Timeout", make="httpx.Timeout(5, read=1)", check="x.read == 1 and x.pool == 5", keeps="exact"),
    Value(cls="httpx.Limits", make="httpx.Limits(max_connections=3)", check="x.max_connections == 3", keeps="exact"),
    Value(
        cls="httpx.BasicAuth",
        make="httpx.BasicAuth('u', 'p')",
        check="'Authorization' in next(x.auth_flow(httpx.Request('GET', 'http://a'))).headers",
        keeps="exact",
    ),
    Value(
        cls="httpx.HTTPStatusError",
        make="httpx.HTTPStatusError('m', request=httpx.Request('GET', 'http://a'), response=httpx.Response(404))",
        check="x.response.status_code == 404 and x.request.url.host == 'a'",
        keeps="equal",
        note="its traceback is gone",
    ),
]
