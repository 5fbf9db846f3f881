"""Accept a repository that somebody else signed: `durable-nb trust FOLDER`.

Called by the command line. When `trust` has returned, every journal file and manifest that is in the repository now is
accepted, durably, for this user; nothing in the repository was changed or signed again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

from durable_nb.ports import Files
from durable_nb.store.journal import journal_digests
from durable_nb.store.signing import TrustStore

__all__ = ["trust"]

_WORKFLOWS = "workflows"


def trust(files: Files, store: TrustStore) -> int:
    """Accept what is in this repository now; return the number of files that were not accepted before."""
    return store.add(_digests(files))


def _digests(files: Files) -> Iterator[str]:
    for folder, size_bytes in files.list(_WORKFLOWS):
        if size_bytes >= 0:
            continue
        yield from journal_digests(files, f"{_WORKFLOWS}/{folder}/journal")
        manifests = f"{_WORKFLOWS}/{folder}/manifests"
        for name, manifest_bytes in files.list(manifests):
            if manifest_bytes >= 0:
                yield hashlib.sha256(files.read(f"{manifests}/{name}")).hexdigest()
