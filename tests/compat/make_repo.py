"""Make the example repository: `python tests/compat/make_repo.py FOLDER` writes FOLDER/repo and FOLDER/key, and
prints the worked example of FORMAT.md.

The same clock, key and kernels every time, so that the result is the same every time; only another version of the
zstd library may compress to other bytes. `repo-v1/` and `repo-v2/` were made by this script, the first without the last
two cells, and are never made again: they stand for the repositories that are out there. The first three cells are the
worked example of FORMAT.md.
"""

from __future__ import annotations

import json
import pickle
import random
import sys
from pathlib import Path
from typing import Any

from durable_nb.model import Delta, EventDraft, GroupData, GroupId, Owner, Unsaved, Variable
from durable_nb.store.files import LocalFiles
from durable_nb.store.repository import Repository
from durable_nb.store.signing import SigningKey
from durable_nb.store.workflow import Workflow
from durable_nb.testing.clock import ManualClock

KEY_FILE = b"an example key, never to be used for real data\n"
WORKFLOW_ID = "analysis.ipynb"
Values = dict[str, tuple[bytes, list[bytes]]]


class Kernel:
    """One life of an example kernel, which runs cells by writing what they would have left."""

    def __init__(self, root: Path, clock: ManualClock, kernel_id: str) -> None:
        key = SigningKey(KEY_FILE.strip())
        self.repository = Repository.open(LocalFiles(root), key=key, clock=clock)
        # No process at all, so that the example says nothing about the machine that made it.
        owner = Owner(kernel_id=kernel_id, pid=1, process_start="1", boot_id="1", host="example", since=0, epoch=0)
        self.workflow: Workflow = self.repository.workflow(WORKFLOW_ID, kernel_id=kernel_id, owner=owner)

    def cell(
        self,
        name: str,
        attempt: int,
        values: dict[str, Any],
        *,
        deleted: tuple[str, ...] = (),
        process: dict[str, Any] | None = None,
        unsaved: tuple[Unsaved, ...] = (),
        attachments: dict[str, bytes] | None = None,
    ) -> Values:
        """Run one cell: the start is recorded, then the delta is committed; return the pickles and buffers."""
        begun = EventDraft(event_type="ActivityStarted", run_id="r1", activity_id=name, attempt=attempt)
        self.workflow.append([begun])
        checkpoint_id = self.workflow.next_checkpoint_id()
        kept = self.workflow.checkpoints()
        stored: Values = {}
        groups = []
        for variable, value in values.items():
            buffers: list[pickle.PickleBuffer] = []
            pickled = pickle.dumps(value, protocol=5, buffer_callback=buffers.append)
            views = [buffer.raw() for buffer in buffers]
            stored[variable] = (pickled, [bytes(view) for view in views])
            groups.append(
                GroupData(
                    group_id=GroupId(f"g-{checkpoint_id}-{variable}"),
                    names=(variable,),
                    codec="pickle",
                    pickle=pickled,
                    buffers=views,
                    types=(type(value).__name__,),
                )
            )
        names: dict[str, Variable | None] = {
            group.names[0]: Variable(
                group_id=group.group_id,
                version=checkpoint_id,
                type=group.types[0],
                size_bytes=len(group.pickle) + sum(len(view) for view in group.buffers),
                made_by=name,
            )
            for group in groups
        }
        names.update(dict.fromkeys(deleted))
        self.workflow.commit(
            EventDraft(event_type="ActivityCompleted", run_id="r1", activity_id=name, attempt=attempt),
            Delta(
                checkpoint_id=checkpoint_id,
                parent=kept[-1].id if kept else None,
                names=names,
                groups=groups,
                process=process or {},
                shell={"execution_count": len(kept) + 1},
                unsaved=unsaved,
                versions={"python": "3.11.7"} if not kept else {},
            ),
            attachments=attachments,
        )
        return stored


def make(root: Path) -> dict[str, Values]:
    """Write the example repository; return what each checkpoint that is left must give back."""
    clock = ManualClock(1_767_225_600_000_000, tick_us=1_000)
    rng = random.Random(20_260_101)
    expected: dict[str, Values] = {}
    state: Values = {}

    # Two small cells whose deltas ride in their events, and one whose data needs a pack and a manifest file.
    first = Kernel(root, clock, "kernel-one")
    state |= first.cell("load", 1, {"x": 1, "names": ["ä", "b"]}, process={"cwd": {"path": "."}})
    expected["c1"] = dict(state)
    state |= first.cell("scale", 1, {"x": 2.5}, attachments={"outputs": '[{"kind":"stream","text":"2.5 ü"}]'.encode()})
    expected["c2"] = dict(state)
    weights, mask = bytearray(rng.randbytes(12_000)), bytearray(100_000)
    model = {"weights": pickle.PickleBuffer(weights), "mask": pickle.PickleBuffer(mask)}
    state |= first.cell("train", 1, {"model": model})
    expected["c3"] = dict(state)

    # A deleted name, an attachment that is no text and one that needs a pack, something that could not be saved.
    state |= first.cell(
        "plot",
        1,
        {"title": "A plot " * 3},
        deleted=("names",),
        unsaved=(Unsaved(name="lock", path="lock", type="_thread.lock", reason="belongs to this process"),),
        attachments={"png": bytes(range(128, 256)), "table": b"1,2,3\n" * 8_000},
    )
    del state["names"]
    expected["c4"] = dict(state)
    # The kernel dies in the middle of a write: half a line stays behind, and the lease is not given back.
    first.workflow.close(release=False)
    journal = next((root / "workflows").glob("*/journal/000001-kernel-one.ndjson"))
    with journal.open("ab") as file:
        file.write(journal.read_bytes().splitlines()[0][:200])

    # The next kernel begins a new file under the next epoch, and an old checkpoint is deleted: its child is rebased.
    clock.advance(120)
    second = Kernel(root, clock, "kernel-two")
    state |= second.cell("plot", 2, {"x": 3, "title": "Another plot"}, process={"cwd": None})
    expected["c5"] = dict(state)
    second.workflow.delete_checkpoint(second.workflow.checkpoints()[2].id)
    del expected["c3"]
    state |= second.cell("report", 1, {"report": {"title": "Another plot", "pages": list(range(200))}})
    expected["c6"] = dict(state)

    # A large buffer, and then one byte of it: the second body tells what is different from the first one.
    grid = bytearray(600_000)
    state |= second.cell("grid", 1, {"grid": pickle.PickleBuffer(grid)})
    expected["c7"] = dict(state)
    grid[400_000] = 1
    state |= second.cell("point", 1, {"grid": pickle.PickleBuffer(grid)})
    expected["c8"] = dict(state)
    second.workflow.close()
    return expected


def example(root: Path) -> str:
    """Return the tables of FORMAT.md's worked example: the first three cells, with the digests of this repository."""
    journal = next(root.glob("workflows/*/journal/000001-kernel-one.ndjson"))
    lines = journal.read_bytes().split(b"\n")[:6]
    rows = ["The first line:", "", "```json", lines[0].decode(), "```", ""]
    rows += ["| seq | event | activity | payload_sha256 | hash |", "|---|---|---|---|---|"]
    rows += [
        "| {seq} | {event_type} | {activity_id} | {payload_sha256} | {hash} |".format(**json.loads(line))
        for line in lines
    ]
    third = json.loads(lines[5])["payload"]["checkpoint"]
    rows += ["", "The third cell's commit names its manifest:", "", "```json", json.dumps(third, indent=2), "```", ""]
    manifest = next(root.glob(f"workflows/*/manifests/{third['manifest']}"))
    body, signature = manifest.read_bytes().split(b"\n")[:2]
    rows += ["which is a file of two lines. The first:", "", "```json"]
    rows += [json.dumps(json.loads(body), indent=1), "```", "", "The second:", "", "```json", signature.decode(), "```"]
    return "\n".join(rows) + "\n"


def main() -> None:
    """Write the repository and its key."""
    target = Path(sys.argv[1])
    target.mkdir(parents=True, exist_ok=True)
    (target / "key").write_bytes(KEY_FILE)
    make(target / "repo")
    print(example(target / "repo"))
    # It keeps people from committing their history by accident; this one is meant to be committed.
    (target / "repo" / ".gitignore").unlink()


if __name__ == "__main__":
    main()
