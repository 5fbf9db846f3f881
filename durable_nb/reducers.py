"""What a package needs to tell durable_nb how its objects are stored: a `Plugin` of reducers, each with its promise.

Imported by plug-ins of other packages. Importing it imports no other library; `capture/reducers/README.md` shows how
a plug-in is written. These names may grow, and never change or go.
"""

from __future__ import annotations

from durable_nb.capture.reducers import SHARING, Kept, Plugin, Promise, Reducer, Sharing, Unstorable, promise
from durable_nb.capture.reducers._named import named

__all__ = ["SHARING", "Kept", "Plugin", "Promise", "Reducer", "Sharing", "Unstorable", "named", "promise"]
