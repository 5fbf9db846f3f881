"""Values of redis."""

from __future__ import annotations

from durable_nb.testing.zoo import Value

LIBRARY = "redis"
SETUP = "import redis\nimport redis.asyncio\nimport redis.backoff\nimport redis.retry"
VALUES = [
    Value(
        cls="redis.client.Redis",
        make="redis.Redis(host='localhost', port=1, db=3)",
        check="x.get_connection_kwargs()['db'] == 3",
        keeps="exact",
        note="before its first command; it connects when it is used",
    ),
    Value(
        cls="redis.connection.ConnectionPool",
        make="redis.ConnectionPool.from_url('redis://localhost:1/2')",
        check="x.connection_kwargs['db'] == 2",
        keeps="exact",
        note="without connections",
    ),
    Value(
        cls="redis.retry.Retry",
        make="redis.retry.Retry(redis.backoff.NoBackoff(), 3)",
        check="x.get_retries() == 3",
        keeps="exact",
    ),
    Value(
        cls="redis.exceptions.ResponseError",
        make="redis.exceptions.ResponseError('ERR a')",
        check="str(x) == 'ERR a'",
        keeps="equal",
        note="its traceback is gone",
    ),
]
