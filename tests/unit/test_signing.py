"""The key file, signatures, what the user trusts, and canonical JSON."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from durable_nb.errors import UsageError
from durable_nb.store.signing import SigningKey, TrustStore, canonical_json, default_key_path

POSIX = pytest.mark.skipif(os.name == "nt", reason="Windows has no permission bits")


def test_a_signature_holds_for_its_bytes_and_its_key() -> None:
    """Another byte or another key, and the signature does not hold."""
    key = SigningKey(b"a secret of 20 bytes")
    signature = key.sign(b"data")
    assert [
        key.verify(b"data", signature),
        key.verify(b"Data", signature),
        SigningKey(b"another secret of 25 bytes").verify(b"data", signature),
        key.verify(b"data", "ü no signature"),
    ] == [True, False, False, False]


def test_the_key_id_says_nothing_about_the_key() -> None:
    """The public id is short, stable, and neither the key nor a signature of anything else."""
    key = SigningKey(b"a secret of 20 bytes")
    assert len(key.key_id) == 16
    assert SigningKey(b"a secret of 20 bytes").key_id == key.key_id
    assert key.key_id not in key.sign(b"")
    assert "secret" not in repr(key)


@POSIX
def test_a_key_is_made_once_private_and_found_again(tmp_path: Path) -> None:
    """The first call makes folder and file for this user only; later calls read the same key."""
    path = tmp_path / "data" / "durable_nb" / "key"
    first = SigningKey.load_or_create(path)
    assert first.key_id == SigningKey.load_or_create(path).key_id
    assert [stat.S_IMODE(p.stat().st_mode) for p in (path, path.parent)] == [0o600, 0o700]


def test_processes_that_start_together_get_one_key(tmp_path: Path) -> None:
    """Whoever comes first makes the key; everybody uses that one."""
    code = (
        "import sys, pathlib; from durable_nb.store.signing import SigningKey;"
        "print(SigningKey.load_or_create(pathlib.Path(sys.argv[1])).key_id)"
    )
    command = [sys.executable, "-c", code, str(tmp_path / "k" / "key")]
    root = str(Path(__file__).parents[2])
    environment = {**os.environ, "PYTHONPATH": root}
    started = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) for _ in range(4)]
    ids = {process.communicate(timeout=60)[0].strip() for process in started}
    assert [process.returncode for process in started] == [0] * 4
    assert len(ids) == 1


@POSIX
def test_a_key_of_ours_that_others_can_read_is_made_private(tmp_path: Path) -> None:
    """A copied key file with open permissions is tightened, and used."""
    path = tmp_path / "key"
    made = SigningKey.load_or_create(path)
    path.chmod(0o644)
    assert made.key_id == SigningKey.load_or_create(path).key_id
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


@POSIX
def test_an_open_key_of_somebody_else_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A key that others can read and that is not ours to change signs nothing."""
    path = tmp_path / "key"
    SigningKey.load_or_create(path)
    path.chmod(0o644)
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    with pytest.raises(UsageError, match="belongs to somebody else"):
        SigningKey.load_or_create(path)


def test_an_empty_key_file_is_refused(tmp_path: Path) -> None:
    """An empty file, such as a full disk leaves, is no key; the message names the file."""
    path = tmp_path / "key"
    path.touch(0o600)
    with pytest.raises(UsageError, match="shorter than 16 bytes"):
        SigningKey.load_or_create(path)


def test_a_key_that_cannot_be_made_is_a_clear_error(tmp_path: Path) -> None:
    """Where no key can be written, the message names the variable that helps."""
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match="DURABLE_NB_KEY_FILE"):
        SigningKey.load_or_create(tmp_path / "file" / "key")


def test_the_environment_names_the_key_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """DURABLE_NB_KEY_FILE wins; without it the key is in the Jupyter data folder."""
    monkeypatch.setenv("DURABLE_NB_KEY_FILE", str(tmp_path / "mine"))
    assert tmp_path / "mine" == default_key_path()
    assert SigningKey.load_or_create().key_id == SigningKey.load_or_create(tmp_path / "mine").key_id
    monkeypatch.delenv("DURABLE_NB_KEY_FILE")
    monkeypatch.setenv("JUPYTER_DATA_DIR", str(tmp_path / "jupyter"))
    assert tmp_path / "jupyter" / "durable_nb" / "key" == default_key_path()


def test_trust_is_remembered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was accepted is accepted by every later process, and nothing else is."""
    monkeypatch.setenv("DURABLE_NB_KEY_FILE", str(tmp_path / "new" / "key"))
    store = TrustStore()
    assert not store.accepts("d1")
    assert [store.add(["d1", "d2"]), store.add(["d2", "d3"])] == [2, 1]
    assert [store.accepts("d3"), TrustStore().accepts("d1"), TrustStore().accepts("d4")] == [True, True, False]
    assert list((tmp_path / "new").iterdir()) == [tmp_path / "new" / "trusted.json"]


def test_two_stores_add_to_one_file(tmp_path: Path) -> None:
    """Adding reads again what another process has added since."""
    first, second = TrustStore(tmp_path / "t.json"), TrustStore(tmp_path / "t.json")
    assert not first.accepts("a")
    second.add(["b"])
    first.add(["a"])
    assert TrustStore(tmp_path / "t.json").accepts("b")


def test_a_damaged_trust_file_is_a_clear_error(tmp_path: Path) -> None:
    """A list of trust that cannot be read trusts nobody and says what to do."""
    (tmp_path / "t.json").write_text("{")
    with pytest.raises(UsageError, match="Remove that file"):
        TrustStore(tmp_path / "t.json").accepts("d")


def test_canonical_json_is_one_form() -> None:
    """Keys are sorted, nothing is padded, text is UTF-8, and what UTF-8 cannot say is escaped."""
    value = {"b": [1, 1.5, True, None], "a": {"ü": "\ud800 ü\n"}}
    expected = '{"a":{"ü":"\\ud800 ü\\n"},"b":[1,1.5,true,null]}'.encode()
    assert expected == canonical_json(value)
    assert value == json.loads(canonical_json(value))


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_canonical_json_has_no_nan(value: float) -> None:
    """What is no JSON is refused, not written in a form that other readers reject."""
    with pytest.raises(ValueError, match="not JSON compliant"):
        canonical_json([value])
