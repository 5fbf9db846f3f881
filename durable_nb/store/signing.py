"""The user's signing key, what it signs, and which foreign objects the user has accepted.

Called by the journal and the manifests for every object that is written or read. When `load_or_create` has returned,
the key file is durable: nothing is ever signed with a key that a power cut could take away.
"""

from __future__ import annotations

import hmac
import json
import os
import re
import secrets
import stat
import time
from collections.abc import Iterable
from pathlib import Path

from durable_nb.errors import UsageError
from durable_nb.model import Json
from durable_nb.store.files import LocalFiles

__all__ = ["KEY_FILE_VARIABLE", "SigningKey", "TrustStore", "canonical_json", "default_key_path"]

KEY_FILE_VARIABLE = "DURABLE_NB_KEY_FILE"
_MIN_KEY_BYTES = 16
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")
# Building an encoder costs more than encoding a small event, so one is built here; it holds no state.
_ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False, sort_keys=True, separators=(",", ":"))


def canonical_json(value: Json) -> bytes:
    """Return the one form in which JSON is stored: sorted keys, no white space, UTF-8; ValueError for NaN and infinity.

    A lone surrogate, which UTF-8 cannot say, is written as a `\\udXXX` escape.
    """
    text = _ENCODER.encode(value)
    try:
        return text.encode()
    except UnicodeEncodeError:
        return _LONE_SURROGATE.sub(lambda found: f"\\u{ord(found[0]):04x}", text).encode()


def default_key_path() -> Path:
    """Return where the key is: the file that DURABLE_NB_KEY_FILE names, else one in the Jupyter data folder."""
    named = os.environ.get(KEY_FILE_VARIABLE)
    if named:
        return Path(named).expanduser()
    try:
        from jupyter_core.paths import jupyter_data_dir
    except ImportError:
        # The command line may run where Jupyter is not installed; this is Jupyter's own default on Linux.
        return Path.home() / ".local" / "share" / "jupyter" / "durable_nb" / "key"
    return Path(jupyter_data_dir()) / "durable_nb" / "key"


class SigningKey:
    """A secret of this user; `key_id` names it in public, `sign` and `verify` use it."""

    __slots__ = ("_secret", "key_id")

    def __init__(self, secret: bytes) -> None:
        if len(secret) < _MIN_KEY_BYTES:
            raise UsageError(
                f"A signing key of {len(secret)} bytes is too short; nothing was signed.",
                hint=f"Use at least {_MIN_KEY_BYTES} random bytes.",
            )
        self._secret = secret
        self.key_id = hmac.digest(secret, b"durable_nb key id", "sha256").hex()[:16]

    def __repr__(self) -> str:
        return f"SigningKey(key_id={self.key_id!r})"

    def sign(self, data: bytes | memoryview) -> str:
        """Return HMAC-SHA256 of `data` in hex."""
        return hmac.digest(self._secret, data, "sha256").hex()

    def reveal(self) -> str:
        """Return the secret in hex, for a process of this user that signs as well; never for a file or a log."""
        return self._secret.hex()

    def verify(self, data: bytes | memoryview, signature: str) -> bool:
        """Say whether `signature` is what `sign` returns for `data`."""
        return hmac.compare_digest(self.sign(data).encode(), signature.encode("utf-8", "replace"))

    @classmethod
    def load_or_create(cls, path: Path | None = None) -> SigningKey:
        """Read the key file, or make one with a new random key; UsageError if it cannot be used safely."""
        path = path or default_key_path()
        files, name = _near(path)
        try:
            _create_key(files, name)
        except OSError as error:
            if not path.is_file():
                raise UsageError(
                    f"The signing key {path} cannot be created ({error}); nothing was written.",
                    hint=f"Name a writable place in {KEY_FILE_VARIABLE}.",
                ) from error
            # Somebody has made it, a moment or a year ago; on a read-only mount creating was never needed either.
            _tighten(path)
        return cls(_read_key(path, files, name))


class TrustStore:
    """Foreign objects that the user accepted by `durable-nb trust`: their digests, in a file beside the key.

    A digest is the SHA-256 of a whole file, so that accepting a repository accepts what is in it now, wherever it is
    moved to, and nothing that anybody adds to it later.
    """

    def __init__(self, path: Path | None = None) -> None:
        self.path = path or default_key_path().with_name("trusted.json")
        self._digests: frozenset[str] | None = None

    def accepts(self, digest: str) -> bool:
        """Say whether the user accepted the file with this SHA-256."""
        if self._digests is None:
            self._digests = self._load()
        return digest in self._digests

    def add(self, digests: Iterable[str]) -> int:
        """Accept these files, durably; return how many were not accepted before."""
        # Read again: another process may have added to the list since.
        before = self._load()
        known = before.union(digests)
        content = canonical_json({"version": 1, "sha256": sorted(known)})
        files, name = _near(self.path)
        temporary = f"{name}.{secrets.token_hex(4)}"
        try:
            _make_parent(files, name)
            file = files.create(temporary)
            try:
                file.write(content + b"\n")
                file.sync()
            finally:
                file.close()
            files.rename(temporary, name)
            files.sync_folder(name.rpartition("/")[0])
        except OSError as error:
            raise UsageError(
                f"What you trust cannot be recorded in {self.path} ({error}); nothing changed.",
                hint="Make that folder writable, or use --trust each time.",
            ) from error
        self._digests = known
        return len(known) - len(before)

    def _load(self) -> frozenset[str]:
        try:
            content = self.path.read_bytes()
        except FileNotFoundError:
            return frozenset()
        try:
            return frozenset(json.loads(content)["sha256"])
        except (ValueError, KeyError, TypeError) as error:
            raise UsageError(
                f"The list of what you trust, {self.path}, is damaged; your data is not touched.",
                hint="Remove that file and run `durable-nb trust FOLDER` again.",
            ) from error


def _near(path: Path) -> tuple[LocalFiles, str]:
    """Return files rooted at the nearest folder that exists, and the path below it, so that parents can be made."""
    path = Path(os.path.abspath(path))
    anchor = path.parent
    while not anchor.is_dir() and anchor != anchor.parent:
        anchor = anchor.parent
    return LocalFiles(anchor), path.relative_to(anchor).as_posix()


def _make_parent(files: LocalFiles, name: str) -> None:
    folder = name.rpartition("/")[0]
    if folder:
        files.make_folder(folder)


def _create_key(files: LocalFiles, name: str) -> None:
    _make_parent(files, name)
    file = files.create(name)
    try:
        file.write(secrets.token_hex(32).encode() + b"\n")
        file.sync()
    finally:
        file.close()
    files.sync_folder(name.rpartition("/")[0])


def _read_key(path: Path, files: LocalFiles, name: str) -> bytes:
    secret = b""
    # Between another process's create and its write the file is empty for some microseconds.
    for wait_s in (0.0, 0.001, 0.01, 0.1, 0.5):
        time.sleep(wait_s)
        try:
            secret = files.read(name).strip()
        except OSError as error:
            raise UsageError(
                f"The signing key {path} cannot be read ({error}); nothing was changed.",
                hint=f"Make it readable for you, or name another one in {KEY_FILE_VARIABLE}.",
            ) from error
        if len(secret) >= _MIN_KEY_BYTES:
            return secret
    raise UsageError(
        f"The signing key {path} is shorter than {_MIN_KEY_BYTES} bytes; nothing was changed.",
        hint="Restore it from a copy, or remove it: a new one is made, and you will be asked to trust what is there.",
    )


def _tighten(path: Path) -> None:
    """Take other people's permissions away from the key file, or refuse it where that is not ours to do."""
    if os.name == "nt":
        # Windows keeps no such bits; the user's profile folder is private by its access list.
        return
    status = path.stat()
    if not status.st_mode & (stat.S_IRWXG | stat.S_IRWXO):
        return
    if status.st_uid != os.geteuid():
        raise UsageError(
            f"The signing key {path} is open to other people and belongs to somebody else; nothing was signed with it.",
            hint=f"Let its owner run `chmod 600`, or name a key of your own in {KEY_FILE_VARIABLE}.",
        )
    path.chmod(0o600)
