"""Which plug-in has the word about a class when several packages have something to say."""

from __future__ import annotations

import decimal
import fractions
import gc
import logging
import sys
from typing import Any

import pytest

from durable_nb.capture import reducers
from durable_nb.capture.reducers import _others
from durable_nb.reducers import Plugin, Promise, named, promise


@promise("exact")
def _ours(obj: Any) -> Any:
    return "ours"


@promise("exact")
def _theirs(obj: Any) -> Any:
    return "theirs"


def _merged(made: Any, library: str = "decimal", ours: Plugin | None = None) -> Plugin:
    """Merge what a function returns with our own, as an entry point of a package would be."""
    offer = _others.Offer(library=library, value=f"{__name__}:made", package="test")
    _others._check(made)
    return _others.over(ours or Plugin(), [_others._guarded(offer, made)])


class Money(decimal.Decimal):
    """A class of the library under test."""


Money.__module__ = "decimal.money"


def _says(plugin: Plugin, cls: type) -> Any:
    """Return who describes objects of a class."""
    reducer = plugin.exact.get(cls) or next((r for base, r in plugin.subclasses if issubclass(cls, base)), None)
    return None if reducer is None else reducer(None)


def test_a_plug_in_wins_for_classes_of_its_library_and_for_exact_types() -> None:
    """Also where a rule of ours is about a base of them."""
    ours = Plugin(subclasses=((decimal.Decimal, _ours), (fractions.Fraction, _ours)), exact={dict: _ours})
    made = Plugin(subclasses=((Money, _theirs),), exact={fractions.Fraction: _theirs})
    found = _merged(made, ours=ours)
    assert ("theirs", "ours", "theirs") == tuple(_says(found, c) for c in (Money, decimal.Decimal, fractions.Fraction))


def test_a_plug_in_does_not_overrule_what_others_are_about() -> None:
    """A rule for a base class of another library comes after ours, and serves where we have none."""
    ours = Plugin(subclasses=((fractions.Fraction, _ours),), referents={list: _ours}, memory={list: _ours})
    made = Plugin(
        subclasses=((fractions.Fraction, _theirs), (bytearray, _theirs)),
        referents={list: _theirs, Money: _theirs},
        memory={list: _theirs},
    )
    found = _merged(made, ours=ours)
    assert ("ours", "theirs") == (_says(found, fractions.Fraction), _says(found, bytearray))
    assert ("ours", "theirs", "ours") == (
        found.referents[list](None),
        found.referents[Money](None),
        found.memory[list](None),
    )


def test_a_class_by_name_belongs_to_the_library_that_it_names() -> None:
    """`named` stands for classes that may not be imported yet; of two libraries it is nobody's own."""
    ours = Plugin(subclasses=((decimal.Decimal, _ours),))
    own, mixed = named("decimal.money.Money"), named("decimal.money.Money", "fractions.Fraction")
    assert "theirs" == _says(_merged(Plugin(subclasses=((own, _theirs),)), ours=ours), Money)
    assert "ours" == _says(_merged(Plugin(subclasses=((mixed, _theirs),)), ours=ours), Money)


def test_what_fails_while_values_are_walked_is_asked_once(caplog: pytest.LogCaptureFixture) -> None:
    """A plug-in's `referents` that raises is logged and named; the collector answers instead of it."""

    def wrong(obj: Any) -> Any:
        raise LookupError("lost")

    offer = _others.Offer(library="decimal", value="x:y", package="test")
    outcome = _others._guarded(offer, Plugin(referents={list: wrong}))
    assert outcome.plugin is not None
    held = [object()]
    with caplog.at_level(logging.WARNING):
        answers = [outcome.plugin.referents[list](held) for _ in range(2)]
    assert [gc.get_referents(held)] * 2 == answers
    assert (1, "the plug-in for decimal (test) raised LookupError: lost") == (len(caplog.records), outcome.trouble)


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (Plugin(exact={"dict": _ours}), "is no class"),  # type: ignore[dict-item]
        (Plugin(exact={dict: lambda obj: obj}), "makes no promise"),
        (Plugin(referents={dict: 3}), "cannot be called"),  # type: ignore[dict-item]
    ],
)
def test_rules_that_a_plug_in_keeps(made: Plugin, said: str) -> None:
    """What does not keep them is left out as a whole."""
    with pytest.raises(TypeError, match=said):
        _merged(made)


def test_a_promise_is_kept_with_its_reducer() -> None:
    """It is read back from the reducer, and a weaker one needs a note."""
    assert Promise(kept="exact") == vars(_ours)["promise"]
    with pytest.raises(ValueError, match="note"):
        promise("reported")


def test_without_offers_nothing_is_merged() -> None:
    """Our own plug-ins alone are one object for as long as no further library is loaded."""
    assert reducers.load(sys.modules) is reducers.load(sys.modules)
    assert {} == reducers.troubles(sys.modules)
