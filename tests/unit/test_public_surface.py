"""What other people's notebooks and scripts rely on: names that may grow, and never change or go."""

from __future__ import annotations

import dataclasses
import inspect
import re
from importlib import resources

import durable_nb
from durable_nb import cli, errors, reducers
from durable_nb.capture.reducers._others import GROUP
from durable_nb.config import Settings
from durable_nb.kernel.options import OPTIONS, working_options
from durable_nb.verbs import LATER, VERBS
from durable_nb.verbs.arguments import FLAGS

CODES = {
    "DurableError": "internal",
    "UsageError": "usage",
    "RepositoryError": "repository",
    "RepositoryNotFound": "repository_not_found",
    "FormatVersion": "format_version",
    "LeaseHeld": "lease_held",
    "StaleEpoch": "stale_epoch",
    "Untrusted": "untrusted",
    "Integrity": "integrity",
    "CaptureError": "capture",
    "CheckpointError": "checkpoint",
    "RestoreError": "restore",
    "NonRetryable": "non_retryable",
    "UnknownName": "unknown_name",
}
OPTION_NAMES = [
    "--rerun",
    "--setup",
    "--key",
    "--depends",
    "--skip-if",
    "--include",
    "--exclude",
    "--durability",
    "--phase",
    "--verify",
    "--on-code-change",
    "--max-attempts",
    "--initial-interval",
    "--backoff-coefficient",
    "--max-interval",
    "--jitter",
    "--retry-on",
    "--no-retry-on",
    "--on-exhausted",
    "--timeout",
    "--heartbeat-timeout",
    "--schedule-to-close-timeout",
    "--semantics",
    "--checkpoint",
    "--on-unserializable",
    "--compensate",
    "--executor",
    "--task-queue",
    "--attr",
    "--summary",
]


def test_error_codes() -> None:
    """Every exception of the tree has the code that scripts compare, and no two have the same."""
    found = {
        name: str(cls.code)
        for name, cls in vars(errors).items()
        if inspect.isclass(cls) and issubclass(cls, errors.DurableError)
    }
    assert found == CODES
    assert sorted(CODES.values()) == sorted(str(code) for code in errors.ErrorCode)


def test_exit_codes() -> None:
    """The command's exit codes: done, the answer is no, wrong usage, not possible."""
    assert (cli.OK, cli.SAYS_NO, cli.USAGE, cli.NOT_POSSIBLE) == (0, 1, 2, 3)


def test_verbs() -> None:
    """Every promised verb is there, with a line of help and a usage; those of later versions are known by name."""
    promised = [
        "status",
        "why",
        "checkpoints",
        "restore",
        "events",
        "sql",
        "recompute",
        "verify",
        "gc",
        "new",
        "list",
        "doctor",
        "trust",
        "demo",
    ]
    assert promised == list(VERBS)
    assert set(VERBS) == set(FLAGS)
    assert [name for name, action in VERBS.items() if not (action.__doc__ or "").strip()] == []
    assert set() == LATER & set(VERBS)


def test_flags_of_the_verbs() -> None:
    """The flags of each verb, besides --json."""
    flags = {verb: sorted(known) for verb, (_, _, known) in FLAGS.items() if known}
    assert flags == {
        "restore": ["--eager", "--trust"],
        "events": ["--activity", "--last", "--run"],
        "recompute": ["--force"],
        "verify": ["--repair"],
        "gc": ["--dry-run"],
    }


def test_options_of_the_magic() -> None:
    """All option names are known; these work, and the others are refused by name."""
    assert sorted(OPTION_NAMES) == sorted(option.name for option in OPTIONS)
    working = ["--rerun", "--setup", "--key", "--depends", "--skip-if", "--include", "--exclude", "--durability"]
    working.append("--on-unserializable")
    assert working == [option.name for option in working_options()]
    assert [o.name for o in OPTIONS if o.keyword != o.name[2:].replace("-", "_")] == []


def test_settings() -> None:
    """Names and defaults of the settings; each is read from DURABLE_NB_NAME."""
    expected = {
        "skip": "after-restore",
        "on_restart": "fresh",
        "unknown_inputs": "skip",
        "restore": "auto",
        "dir": "",
        "key_file": "",
        "workflow": "",
        "env": "",
        "durability": "async",
        "inflight": "512MiB",
        "lazy": "auto",
        "eager_bytes": 64 * 1024 * 1024,
    }
    defaults = Settings()
    assert expected == {name: getattr(defaults, name) for name in Settings.__slots__}
    for name in expected:
        values = {"skip": "never", "on_restart": "continue", "unknown_inputs": "run", "restore": "off", "lazy": "off",
                  "durability": "sync", "inflight": "2GiB", "eager_bytes": "0"}  # fmt: skip
        value = values.get(name, "x")
        assert value == str(getattr(Settings.from_environment({f"DURABLE_NB_{name.upper()}": value}), name))


def test_public_names_of_the_package() -> None:
    """What `import durable_nb` offers."""
    assert {
        "DurableError",
        "NonRetryable",
        "__version__",
        "load_ipython_extension",
        "unload_ipython_extension",
        "unsaved",
    } == set(durable_nb.__all__)
    assert [name for name in durable_nb.__all__ if not hasattr(durable_nb, name)] == []


def test_public_names_for_plug_ins() -> None:
    """What authors of plug-ins import, and the name of their entry point."""
    promised = {"Plugin", "Promise", "Unstorable", "promise", "named", "Reducer", "Kept", "Sharing", "SHARING"}
    assert promised == set(reducers.__all__)
    assert ("durable_nb.reducers", ["exact", "subclasses", "referents", "memory"]) == (
        GROUP,
        [field.name for field in dataclasses.fields(reducers.Plugin)],
    )


def test_tables_and_views() -> None:
    """The names that queries use, and the columns of the table of events."""
    text = (resources.files("durable_nb.projection") / "views.sql").read_text(encoding="utf-8")
    views = set(re.findall(r"^CREATE VIEW (\w+)", text, re.MULTILINE))
    promised = {"runs", "activities", "attempts", "checkpoints", "variables", "steps", "resources", "outputs"}
    assert promised == views & promised
    table = text[text.index("CREATE TABLE events (") :].partition(");")[0]
    columns = re.findall(r"^    (\w+) ", table, re.MULTILINE)
    assert columns == [
        "event_id",
        "event_type",
        "timestamp",
        "workflow_id",
        "run_id",
        "activity_id",
        "attempt",
        "kernel_id",
        "epoch",
        "seq",
        "payload",
        "metadata",
        "correlation",
        "schema_version",
        "hash",
    ]
