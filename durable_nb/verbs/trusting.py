"""`trust`: accept the objects of a foreign repository as they are now. Durable when it returns."""

from __future__ import annotations

from pathlib import Path

from durable_nb.store.repository import Repository
from durable_nb.store.signing import TrustStore

__all__ = ["accept"]


def accept(repository: Repository, key_path: Path) -> int:
    """Record every journal file and manifest of the repository as accepted; return how many were not before."""
    store = TrustStore(key_path.with_name("trusted.json"))
    return store.add(repository.repository_id, repository.signed_objects())
