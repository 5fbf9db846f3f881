"""A reply that is still being received is reported, because pickle would read it to its end; digest logins begin anew.

Merged into the plug-in by `load` once requests is imported.
"""

from __future__ import annotations

import threading
from typing import Any

from durable_nb.capture.reducers import Plugin, Unstorable, promise
from durable_nb.capture.reducers._named import named

LIBRARY = "requests"


@promise("equal", "with its content; the connection that it came from is not there")
def _response(response: Any) -> Any:
    if not response._content_consumed and response.raw is not None:
        raise Unstorable("a reply that is still being received; read its .content first")
    return response.__reduce_ex__(5)


def _make_digest_auth(cls: Any) -> Any:
    return cls.__new__(cls)


def _fill_digest_auth(auth: Any, state: dict[str, Any]) -> None:
    vars(auth).update(state)
    vars(auth)["_thread_local"] = threading.local()


@promise("equal", "it logs in anew with the next request")
def _digest_auth(auth: Any) -> tuple[Any, ...]:
    state = {name: value for name, value in vars(auth).items() if name != "_thread_local"}
    return _make_digest_auth, (type(auth),), state, None, None, _fill_digest_auth


def plugin() -> Plugin:
    """Return what requests needs."""
    return Plugin(
        subclasses=(
            (named("requests.models.Response"), _response),
            (named("requests.auth.HTTPDigestAuth"), _digest_auth),
        )
    )
