"""Errors survive pickling and keep their codes; settings are read once and checked."""

from __future__ import annotations

import inspect
import pickle

import pytest

from durable_nb import errors
from durable_nb.config import Settings
from durable_nb.errors import DurableError, ErrorCode, LeaseHeld, UsageError


def test_every_error_pickles() -> None:
    """Each error class comes back from a pickle with message, hint and details."""
    classes = [c for _, c in inspect.getmembers(errors, inspect.isclass) if issubclass(c, DurableError)]
    assert len(classes) >= 12
    for cls in classes:
        error = cls("what happened", hint="what to type", pid=7)
        copy = pickle.loads(pickle.dumps(error))
        assert (type(error), str(error), error.details) == (type(copy), str(copy), copy.details)


def test_codes_are_stable() -> None:
    """Scripts compare codes: members are only ever added."""
    expected = {
        "internal", "usage", "repository", "repository_not_found", "format_version", "lease_held", "stale_epoch",
        "untrusted", "integrity", "capture", "checkpoint", "restore", "non_retryable",
    }  # fmt: skip
    assert expected <= {code.value for code in ErrorCode}
    assert LeaseHeld.code == "lease_held"


def test_control_flow_is_no_exception_of_the_user() -> None:
    """`except Exception` in a cell does not swallow a cancellation."""
    assert not issubclass(errors.ActivityCanceled, Exception)


def test_settings_come_from_the_environment() -> None:
    """Known variables set fields, unknown ones and empty ones change nothing."""
    settings = Settings.from_environment({"DURABLE_NB_SKIP": "never", "DURABLE_NB_DIR": "", "DURABLE_NB_X": "1"})
    assert settings == Settings(skip="never")


def test_a_wrong_setting_names_the_right_ones() -> None:
    """A typo in a setting is one line with the choices and the nearest of them."""
    with pytest.raises(UsageError, match="Did you mean never"):
        Settings.from_environment({"DURABLE_NB_SKIP": "nevr"})


def test_how_much_may_be_on_the_way() -> None:
    """`inflight` is a size with or without a unit; anything else is refused with an example."""
    sizes = {"512MiB": 512 << 20, "2GiB": 2 << 30, "64 KiB": 64 << 10, "1000": 1000}
    expected = list(sizes.values())
    assert expected == [Settings.from_environment({"DURABLE_NB_INFLIGHT": text}).budget_bytes for text in sizes]
    with pytest.raises(UsageError, match=r"DURABLE_NB_INFLIGHT=much is not a size\. Write it as 512MiB"):
        Settings.from_environment({"DURABLE_NB_INFLIGHT": "much"})
