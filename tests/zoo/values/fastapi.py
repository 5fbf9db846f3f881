"""Values of fastapi."""

from __future__ import annotations

from durable_nb.testing.zoo import Value

LIBRARY = "fastapi"
SETUP = """
import fastapi
import pydantic
import starlette.datastructures
import starlette.requests
import starlette.responses
import starlette.routing

class Item(pydantic.BaseModel):
    name: str
    price: float

async def called(app, path, method="GET", body=b""):
    # One request through the application, without a server.
    sent = []

    async def receive():
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message):
        sent.append(message)

    headers = [(b"content-type", b"application/json")]
    scope = {"type": "http", "method": method, "path": path, "query_string": b"", "headers": headers, "root_path": "",
             "scheme": "http", "server": ("test", 80), "client": ("c", 1), "http_version": "1.1", "asgi": {}}
    await app(scope, receive, send)
    return sent[0]["status"], b"".join(m.get("body", b"") for m in sent[1:])

def call(*args, **options):
    import asyncio
    import concurrent.futures

    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        return pool.submit(lambda: asyncio.run(called(*args, **options))).result()
"""
VALUES = [
    Value(
        cls="fastapi.applications.FastAPI",
        make="""
app = fastapi.FastAPI(title="zoo")

def limit(q: int = 3):
    return q

@app.get("/items/{item_id}")
async def read_item(item_id: int, q: int = fastapi.Depends(limit)):
    return {"id": item_id, "q": q}

@app.post("/items")
async def add_item(item: Item) -> Item:
    return item

app
""",
        check="call(x, '/items/5') == (200, b'{\"id\":5,\"q\":3}') and call(x, '/items/a')[0] == 422 "
        'and call(x, \'/items\', method=\'POST\', body=b\'{"name": "a", "price": 1}\')[1] == b\'{"name":"a","price":1.0}\' '
        "and x.openapi()['info']['title'] == 'zoo'",
        keeps="exact",
        note="with its routes and the functions and models of the notebook",
    ),
    Value(
        cls="fastapi.routing.APIRouter",
        make="router = fastapi.APIRouter(prefix='/r')\n\n@router.get('/a')\nasync def route():\n    return 1\n\nrouter",
        check="[(lambda a: [a.include_router(x), call(a, '/r/a')])(fastapi.FastAPI())][0][1] == (200, b'1')",
        keeps="exact",
    ),
    Value(
        cls="starlette.datastructures.Headers",
        make="starlette.datastructures.Headers({'a': 'b'})",
        check="x['A'] == 'b'",
        keeps="exact",
    ),
    Value(
        cls="starlette.datastructures.URL",
        make="starlette.datastructures.URL('http://site.test/p?q=1')",
        check="x.query == 'q=1'",
        keeps="exact",
    ),
    Value(
        cls="starlette.datastructures.State",
        make="state = starlette.datastructures.State()\nstate.a = [1]\nstate",
        check="x.a == [1]",
        keeps="exact",
    ),
    Value(
        cls="starlette.responses.JSONResponse",
        make="starlette.responses.JSONResponse({'a': 1}, 201)",
        check="x.body == b'{\"a\":1}' and x.status_code == 201",
        keeps="exact",
    ),
    Value(
        cls="starlette.requests.Request",
        make="starlette.requests.Request({'type': 'http', 'method': 'GET', 'path': '/', 'headers': [(b'a', b'b')]})",
        check="x.headers['a'] == 'b'",
        keeps="exact",
        note="without a connection",
    ),
    Value(
        cls="starlette.routing.Route",
        make="starlette.routing.Route('/a/{n:int}', route)",
        check="x.url_path_for('route', n=3) == '/a/3' and x.endpoint is route",
        keeps="exact",
    ),
    Value(
        cls="fastapi.exceptions.HTTPException",
        make="fastapi.HTTPException(404, 'none', headers={'a': 'b'})",
        check="(x.status_code, x.detail, x.headers) == (404, 'none', {'a': 'b'})",
        keeps="equal",
        note="its traceback is gone",
    ),
]
