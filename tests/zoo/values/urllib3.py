"""Values of urllib3."""

from __future__ import annotations

from durable_nb.testing.zoo import Value

LIBRARY = "urllib3"
SETUP = "import urllib3\nimport urllib3.util"
VALUES = [
    Value(
        cls="urllib3.poolmanager.PoolManager",
        make="manager = urllib3.PoolManager(num_pools=3)\nmanager",
        check="x.connection_from_url('http://a').host == 'a' and x.pools._maxsize == 3",
        keeps="equal",
        note="its connections are not there; the next request opens one",
    ),
    Value(
        cls="urllib3.connectionpool.HTTPConnectionPool",
        make="urllib3.HTTPConnectionPool('localhost', maxsize=1)",
        check="x.host == 'localhost' and x.pool.get(timeout=1) is None",
        keeps="equal",
        note="its connections are not there; the next request opens one",
    ),
    Value(
        cls="urllib3.util.retry.Retry",
        make="urllib3.Retry(5, backoff_factor=0.1, status_forcelist=[500])",
        check="x.total == 5 and x.is_retry('GET', 500) and x.increment('GET', '/').total == 4",
        keeps="exact",
    ),
    Value(
        cls="urllib3.util.timeout.Timeout",
        make="urllib3.Timeout(connect=1, read=2)",
        check="(x.connect_timeout, x.read_timeout, x.total) == (1, 2, None)",
        keeps="exact",
    ),
    Value(
        cls="urllib3.util.url.Url",
        make="urllib3.util.parse_url('http://u@site.test:1/p?q')",
        check="(x.host, x.port, x.query) == ('site.test', 1, 'q')",
        keeps="exact",
    ),
    Value(
        cls="urllib3._collections.HTTPHeaderDict",
        make="headers = urllib3.HTTPHeaderDict(a='1')\nheaders.add('A', '2')\nheaders",
        check="x['a'] == '1, 2' and x.getlist('A') == ['1', '2']",
        keeps="exact",
    ),
    Value(
        cls="urllib3.response.HTTPResponse",
        make="urllib3.HTTPResponse(b'abc', status=201, headers={'a': 'b'})",
        check="x.status == 201 and x.data == b'abc' and x.headers['A'] == 'b'",
        keeps="exact",
        note="with its content in memory",
    ),
    Value(
        cls="urllib3.fields.RequestField",
        make="urllib3.fields.RequestField.from_tuples('f', ('a.txt', 'text', 'text/plain'))",
        check="x._filename == 'a.txt' and x.data == 'text'",
        keeps="exact",
    ),
]
