"""What this user trusts beside their own key. `accept` is durable when it returns."""

from __future__ import annotations

from pathlib import Path

from durable_nb.clock import SystemClock
from durable_nb.config import Settings
from durable_nb.errors import DurableError
from durable_nb.store.files import LocalFiles
from durable_nb.store.repository import Repository
from durable_nb.store.signing import SigningKey, TrustStore, default_key_path
from durable_nb.store.trust import trust
from durable_nb.verbs.report import Report, counted

__all__ = ["accept", "accepted", "key_path_of", "trusted"]


def key_path_of(settings: Settings) -> Path:
    """Return where the signing key is."""
    return Path(settings.key_file).expanduser() if settings.key_file else default_key_path()


def trusted(settings: Settings) -> TrustStore:
    """Return what was accepted so far; it lies beside the key."""
    return TrustStore(key_path_of(settings).with_name("trusted.json"))


def accept(settings: Settings, folder: Path) -> int | None:
    """Accept every journal file and manifest that is in `folder` now; return how many were not before.

    None: all of it is signed with the user's own key, so there was nothing to accept.
    """
    return None if _own(settings, folder) else trust(LocalFiles(folder), trusted(settings))


def accepted(folder: Path, count: int | None) -> Report:
    """Return what is told of an acceptance."""
    if count is None:
        line = f"{folder} is all signed with your key already; there is nothing to trust."
    elif count:
        line = f"{counted(count, 'object')} in {folder} {'is' if count == 1 else 'are'} trusted from now on."
    else:
        line = f"{folder} was trusted already."
    return Report(lines=[line], data={"folder": str(folder), "accepted": count or 0})


def _own(settings: Settings, folder: Path) -> bool:
    """Say whether every history in `folder` can be read by the user's key alone.

    The journals decide: a manifest counts only by the digest that an event of theirs names.
    """
    key = SigningKey.load_or_create(key_path_of(settings))
    try:
        repository = Repository.open(LocalFiles(folder), key=key, clock=SystemClock(), create=False)
        known = repository.workflow_ids()
        for workflow_id in known:
            repository.workflow(workflow_id, kernel_id="reader", owner=None).close()
    except DurableError:
        return False  # foreign, or damaged: accepting it takes nothing away
    return len(known) == len(repository.workflow_folders())
