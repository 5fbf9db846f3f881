"""What this user trusts beside their own key. `accept` is durable when it returns."""

from __future__ import annotations

from pathlib import Path

from durable_nb.config import Settings
from durable_nb.store.files import LocalFiles
from durable_nb.store.signing import TrustStore, default_key_path
from durable_nb.store.trust import trust

__all__ = ["accept", "key_path_of", "trusted"]


def key_path_of(settings: Settings) -> Path:
    """Return where the signing key is."""
    return Path(settings.key_file).expanduser() if settings.key_file else default_key_path()


def trusted(settings: Settings) -> TrustStore:
    """Return what was accepted so far; it lies beside the key."""
    return TrustStore(key_path_of(settings).with_name("trusted.json"))


def accept(settings: Settings, folder: Path) -> int:
    """Accept every journal file and manifest that is in `folder` now; return how many were not before."""
    return trust(LocalFiles(folder), trusted(settings))
