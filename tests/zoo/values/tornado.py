"""Values of tornado."""

from __future__ import annotations

from durable_nb.testing.zoo import Value

LIBRARY = "tornado"
SETUP = "import tornado.httputil\nimport tornado.httpclient\nimport tornado.ioloop\nimport tornado.queues\nimport tornado.template\nimport tornado.web"
VALUES = [
    Value(
        cls="tornado.web.Application",
        make="class Main(tornado.web.RequestHandler):\n    def get(self):\n        self.write('a')\n\n"
        "tornado.web.Application([(r'/', Main)], debug=False, mine=[1])",
        check="x.settings['mine'] == [1] and x.wildcard_router.rules[0].target is Main",
        keeps="exact",
        note="with handlers of the notebook",
    ),
    Value(
        cls="tornado.httputil.HTTPHeaders",
        make="headers = tornado.httputil.HTTPHeaders({'A': 'b'})\nheaders.add('a', 'c')\nheaders",
        check="x.get_list('a') == ['b', 'c']",
        keeps="exact",
    ),
    Value(
        cls="tornado.httpclient.HTTPRequest",
        make="tornado.httpclient.HTTPRequest('http://site.test', method='POST', body='a')",
        check="x.body == b'a' and x.method == 'POST'",
        keeps="exact",
    ),
    Value(
        cls="tornado.template.Template",
        make="tornado.template.Template('Hello {{ name }}')",
        check="x.generate(name='a') == b'Hello a'",
        keeps="exact",
    ),
    Value(
        cls="tornado.queues.Queue",
        make="tq = tornado.queues.Queue(3)\ntq.put_nowait(1)\ntq",
        check="x.get_nowait() == 1 and x.maxsize == 3",
        keeps="exact",
        note="with its items",
    ),
    Value(
        cls="tornado.platform.asyncio.AsyncIOMainLoop",
        make="tornado.ioloop.IOLoop.current()",
        check="x.asyncio_loop",
        keeps="reported",
        note="the event loop of the lost kernel",
    ),
    Value(
        cls="tornado.httpclient.HTTPError",
        make="tornado.httpclient.HTTPError(404, 'none')",
        check="x.code == 404 and x.message == 'none'",
        keeps="equal",
        note="its traceback is gone",
    ),
]
