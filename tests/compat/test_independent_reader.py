"""A repository is what FORMAT.md says: a reader that shares no code with durable_nb gets the same out of it."""

from __future__ import annotations

import ast
import importlib.util
import pickle
import random
import shutil
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from durable_nb.store.files import LocalFiles
from durable_nb.store.repository import Repository
from durable_nb.store.signing import SigningKey
from durable_nb.testing.clock import ManualClock

HERE = Path(__file__).parent
FORMAT_MD = HERE.parents[1] / "durable_nb" / "store" / "FORMAT.md"
ALLOWED = {"__future__", "base64", "hashlib", "hmac", "json", "re", "struct", "sys", "pathlib", "typing", "zstandard"}


def load(name: str) -> ModuleType:
    """Import a script of this folder."""
    spec = importlib.util.spec_from_file_location(f"compat_{name}", HERE / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


reader, maker = load("read_repository"), load("make_repo")
KEY = reader.read_key(maker.KEY_FILE)


def files_of(root: Path) -> dict[str, bytes]:
    """Return every file below a folder, but the .gitignore."""
    return {
        path.relative_to(root).as_posix(): path.read_bytes()
        for path in sorted(root.rglob("*"))
        if path.is_file() and path.name != ".gitignore"
    }


def through_durable_nb(root: Path) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Return events and variables as durable_nb itself reads them."""
    repository = Repository.open(LocalFiles(root), key=SigningKey(KEY), clock=ManualClock(), create=False)
    workflow = repository.workflow(maker.WORKFLOW_ID, kernel_id="reader", owner=None)
    events = [
        {
            "seq": event.seq,
            "type": event.event_type,
            "hash": event.hash,
            "payload": dict(event.payload),
            "attached": [workflow.attachment(event, name) for name in event.payload.get("attachments", {})],
        }
        for event in workflow.events()
    ]
    states = {}
    for info in workflow.checkpoints():
        manifest = workflow.manifest(info.id)
        groups = {gid: workflow.read_group(group) for gid, group in manifest.groups.items()}
        states[info.id] = {
            name: (groups[variable.group_id][0], [bytes(buffer) for buffer in groups[variable.group_id][1]])
            for name, variable in manifest.names.items()
        }
    return events, states


def independently(root: Path) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Return events and variables as the independent reader reads them."""
    workflow = reader.Repository(root, KEY).workflows()[maker.WORKFLOW_ID]
    events = [
        {
            "seq": event["seq"],
            "type": event["event_type"],
            "hash": event["hash"],
            "payload": event["payload"],
            "attached": [workflow.attachment(event, name) for name in event["payload"].get("attachments", {})],
        }
        for event in workflow.events
    ]
    return events, {checkpoint_id: workflow.restore(checkpoint_id) for checkpoint_id in workflow.checkpoints}


@pytest.fixture(params=["repo-v1", "repo-v2"])
def old(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """Return a copy of a committed repository of each format version."""
    return Path(shutil.copytree(HERE / request.param / "repo", tmp_path / request.param))


def test_the_reader_shares_no_code_with_durable_nb() -> None:
    """It imports the standard library and zstandard, nothing else."""
    tree = ast.parse((HERE / "read_repository.py").read_text(encoding="utf-8"))
    imported = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            imported |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            imported.add(str(node.module).partition(".")[0])
    assert imported <= ALLOWED


def test_a_fresh_repository_is_read_alike(tmp_path: Path) -> None:
    """Both readers see the same events, and every checkpoint gives back what was put in."""
    expected = maker.make(tmp_path / "fresh")
    assert independently(tmp_path / "fresh") == through_durable_nb(tmp_path / "fresh")
    assert independently(tmp_path / "fresh")[1] == expected


def test_the_old_repository_is_read_alike(tmp_path: Path, old: Path) -> None:
    """The committed repositories of every format version are read, with what was put in back then."""
    before = files_of(old)
    assert independently(old) == through_durable_nb(old)
    states, made = through_durable_nb(old)[1], maker.make(tmp_path / "fresh")
    assert states == {checkpoint_id: made[checkpoint_id] for checkpoint_id in states}
    assert len(states) == {"repo-v1": 5, "repo-v2": 7}[old.name]
    assert files_of(old) == before


def test_the_old_values_load(old: Path) -> None:
    """The pickles and buffers of the old repository make the old values."""
    values = {
        name: pickle.loads(pickled, buffers=buffers)
        for name, (pickled, buffers) in through_durable_nb(old)[1]["c6"].items()
    }
    assert sorted(values) == ["model", "report", "title", "x"]
    assert values["x"] == 3
    assert values["report"] == {"title": "Another plot", "pages": list(range(200))}
    assert bytes(values["model"]["mask"]) == bytes(100_000)


def test_attachments_come_back(old: Path) -> None:
    """Text, bytes and large attachments of the old repository are what was attached."""
    attached = [content for event in through_durable_nb(old)[0] for content in event["attached"]]
    text = '[{"kind":"stream","text":"2.5 ü"}]'.encode()
    assert attached == [text, bytes(range(128, 256)), b"1,2,3\n" * 8_000]


def test_the_old_repository_is_whole_and_can_be_continued(old: Path) -> None:
    """Verify finds nothing, and a new kernel's checkpoint is read by both readers."""
    repository = Repository.open(LocalFiles(old), key=SigningKey(KEY), clock=ManualClock(), create=False)
    assert [problem for problem in repository.verify().problems if problem.kind != "torn_tail"] == []
    kernel = maker.Kernel(old, ManualClock(1_800_000_000_000_000), "kernel-three")
    added = kernel.cell("more", 1, {"y": b"a new one"})
    kernel.workflow.close()
    events, states = independently(old)
    assert (events, states) == through_durable_nb(old)
    assert list(states.values())[-1]["y"] == added["y"]
    assert (old / "FORMAT").read_bytes() == b'{"flags":[],"format":"durable_nb","version":2}\n'


def test_a_large_buffer_in_an_extent_is_read_alike(tmp_path: Path) -> None:
    """What does not shrink lies together in its pack, and both readers find it, and find that it is damaged."""
    root = tmp_path / "fresh"
    maker.make(root)
    kernel = maker.Kernel(root, ManualClock(1_800_000_000_000_000), "kernel-three")
    noise = bytearray(random.Random(3).randbytes(2_000_000))
    added = kernel.cell("noise", 1, {"noise": pickle.PickleBuffer(noise)})
    kernel.workflow.close()
    (pack,) = [path for path in root.rglob("*.pack") if b"DNBX" in path.read_bytes()]
    assert pack.read_bytes().find(bytes(noise[: 15 * 131_072])) % 4096 == 16
    events, states = independently(root)
    assert (events, states) == through_durable_nb(root)
    assert list(states.values())[-1]["noise"] == added["noise"]
    content = bytearray(pack.read_bytes())
    content[1_000_000] ^= 1
    pack.write_bytes(content)
    with pytest.raises(reader.Damaged, match="is not what its name says"):
        independently(root)


def test_the_newest_repository_is_what_the_script_makes(tmp_path: Path) -> None:
    """The format has not moved: today's durable_nb writes the committed files, but for the bytes that zstd chooses."""
    maker.make(tmp_path / "fresh")
    fresh, committed = files_of(tmp_path / "fresh"), files_of(HERE / "repo-v2" / "repo")
    same = [name for name in committed if not name.endswith((".pack", ".ndjson"))]
    assert len(same) >= 7
    assert {name: fresh.get(name) for name in same} == {name: committed[name] for name in same}
    ends = [{name.rpartition("/")[2] for name in files if name.endswith(".ndjson")} for files in (fresh, committed)]
    assert ends[0] == ends[1]


def test_a_changed_byte_is_seen_by_the_reader(tmp_path: Path) -> None:
    """The independent reader checks what the document tells it to check, in every kind of file."""
    maker.make(tmp_path / "fresh")
    root = tmp_path / "fresh"
    targets = [*root.rglob("*.pack"), *root.rglob("manifests/c4*.json"), *root.rglob("journal/*.ndjson")]
    assert len(targets) == 7
    whole = independently(root)
    for path in targets:
        content = bytearray(path.read_bytes())
        content[len(content) // 3] ^= 1
        path.write_bytes(content)
        try:
            seen = independently(root) != whole
        except (reader.Damaged, ValueError, KeyError, reader.zstandard.ZstdError):
            seen = True
        content[len(content) // 3] ^= 1
        path.write_bytes(content)
        assert seen, path.name


def test_the_example_in_the_document_is_the_committed_one() -> None:
    """The worked example of FORMAT.md is what is in the committed repository, digest for digest."""
    assert maker.example(HERE / "repo-v2" / "repo") in FORMAT_MD.read_text(encoding="utf-8")


def test_one_changed_byte_is_told_by_one_digest(tmp_path: Path) -> None:
    """The body of the last cell names one chunk of the large buffer, and the reader puts it among the others."""
    maker.make(tmp_path / "fresh")
    workflow = reader.Repository(tmp_path / "fresh", KEY).workflows()[maker.WORKFLOW_ID]
    body = workflow._body("c8")
    assert (2, {"g-c8-grid"}) == (body["format"], body["groups"].keys())
    (ref,) = body["groups"]["g-c8-grid"]["buffers"]
    assert (["g-c7-grid", 1], ["3"]) == (ref["like"], list(ref["changed"]))
