"""Values of aiohttp."""

from __future__ import annotations

from durable_nb.testing.zoo import Value

LIBRARY = "aiohttp"
SETUP = "import aiohttp\nimport aiohttp.web\nfrom yarl import URL\nfrom multidict import CIMultiDict, MultiDict"
VALUES = [
    Value(
        cls="aiohttp.client.ClientSession",
        make="async def session():\n    return aiohttp.ClientSession()\n\nawait session()",
        check="not x.closed",
        keeps="reported",
        note="it belongs to the event loop of the lost kernel",
    ),
    Value(
        cls="aiohttp.client.ClientTimeout", make="aiohttp.ClientTimeout(total=3)", check="x.total == 3", keeps="exact"
    ),
    Value(
        cls="aiohttp.helpers.BasicAuth",
        make="aiohttp.BasicAuth('u', 'p')",
        check="x.login == 'u' and x.encode().startswith('Basic ')",
        keeps="exact",
    ),
    Value(
        cls="aiohttp.web_urldispatcher.UrlDispatcher",
        make="aiohttp.web.Application().router",
        check="len(x.routes()) == 0",
        keeps="exact",
    ),
    Value(
        cls="aiohttp.web_routedef.RouteTableDef",
        make="routes = aiohttp.web.RouteTableDef()\n\n@routes.get('/a')\nasync def handler(request):\n"
        "    return aiohttp.web.Response(text='a')\n\nroutes",
        check="x[0].path == '/a' and x[0].handler is handler",
        keeps="exact",
        note="with functions of the notebook",
    ),
    Value(
        cls="yarl.URL",
        make="URL('http://u@site.test/p') % {'q': 1}",
        check="x.query['q'] == '1' and x.user == 'u'",
        keeps="exact",
    ),
    Value(
        cls="multidict.MultiDict",
        make="MultiDict([('a', 1), ('a', 2)])",
        check="x.getall('a') == [1, 2]",
        keeps="exact",
    ),
    Value(cls="multidict.CIMultiDict", make="CIMultiDict(Ab=1)", check="x['aB'] == 1", keeps="exact"),
]
