"""Manifests: one encoding for one value, deltas that add up, keyframes, signatures."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from durable_nb.errors import Integrity, Untrusted
from durable_nb.model import (
    BufferRef,
    CheckpointId,
    Delta,
    Digest,
    Group,
    GroupId,
    Manifest,
    Unsaved,
    Variable,
)
from durable_nb.store.chunks import digest_of
from durable_nb.store.manifests import apply_body, canonical, delta_body, keyframe_body, manifest_of, open_signed, sign
from durable_nb.store.signing import SigningKey

KEY = SigningKey(b"0123456789abcdef0123456789abcdef")
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)


def variable(group: str, version: str = "c1") -> Variable:
    """Return a variable of a group."""
    return Variable(group_id=GroupId(group), version=CheckpointId(version), type="list", size_bytes=3, digest="d")


def group(name: str, *names: str) -> Group:
    """Return a stored group."""
    ref = BufferRef(size_bytes=3, chunk_bytes=1024, chunks=(Digest("ab" * 32),))
    return Group(
        group_id=GroupId(name), names=names, codec="pickle", pickle=ref, buffers=(ref,), deps=("f",), types=("t",)
    )


def step(parent: Manifest | None, delta: Delta, *groups: Group) -> Manifest:
    """Apply a delta the way it is stored: encoded and decoded."""
    body = delta_body(delta, {g.group_id: g for g in groups}, parent, "nb", 1)
    return apply_body(parent, body)


def first() -> Manifest:
    """Return a manifest with two names in one group and one in another, and process state in a third."""
    delta = Delta(
        checkpoint_id=CheckpointId("c1"),
        parent=None,
        names={"x": variable("g1"), "y": variable("g1"), "z": variable("g2")},
        process={"random": {"group": "g3"}, "cwd": "/home"},
        shell={"execution_count": 1},
        versions={"numpy": "2"},
        unsaved=(Unsaved(name="lock", path="lock", type="lock", reason="cannot be stored"),),
    )
    return step(None, delta, group("g1", "x", "y"), group("g2", "z"), group("g3"))


def next_delta(**changes: object) -> Delta:
    """Return a delta on top of `first`."""
    return Delta(checkpoint_id=CheckpointId("c2"), parent=CheckpointId("c1"), **changes)  # type: ignore[arg-type]


@given(JSON)
def test_canonical_json_is_one_encoding_for_one_value(value: object) -> None:
    """Encoding what was decoded gives the same bytes, without spaces, in UTF-8."""
    import json

    encoded = canonical(value)
    assert encoded == canonical(json.loads(encoded))


@pytest.mark.parametrize("value", [2**53 + 1, -(2**53) - 1, float("nan"), float("inf"), {1: 2}, [{"a": 2**60}]])
def test_what_readers_could_understand_differently_is_refused(value: object) -> None:
    """Big integers, NaN, infinity and keys that are no strings raise ValueError."""
    with pytest.raises(ValueError):  # noqa: PT011
        canonical(value)


def test_a_manifest_comes_back_from_its_keyframe() -> None:
    """Encoding a manifest as a keyframe and decoding it gives an equal one."""
    assert first() == manifest_of(keyframe_body(first(), "nb"))


def test_a_deleted_name_takes_its_group_with_it_when_nothing_else_uses_it() -> None:
    """A group leaves with its last name, and stays while one name is left."""
    after = step(first(), next_delta(names={"z": None, "x": None}))
    assert {"y"} == set(after.names)
    assert {"g1", "g3"} == set(after.groups)


def test_a_group_that_only_the_process_uses_stays_until_the_process_lets_go() -> None:
    """Process entries keep their groups; None deletes an entry."""
    after = step(first(), next_delta(process={"random": None, "sys.path": ["/a"]}))
    assert after.process == {"cwd": "/home", "sys.path": ["/a"]}
    assert {"g1", "g2"} == set(after.groups)


def test_unsaved_is_replaced_and_the_rest_merged() -> None:
    """`unsaved` is the complete new list; shell and versions entries replace those of the same key."""
    after = step(first(), next_delta(shell={"execution_count": 2}, versions={"pandas": "3"}))
    assert (after.unsaved, after.shell, after.versions) == ((), {"execution_count": 2}, {"numpy": "2", "pandas": "3"})


def test_a_delta_that_names_a_group_that_is_not_there_is_refused() -> None:
    """A manifest never uses a group that it does not hold."""
    with pytest.raises(ValueError, match="g9"):
        step(first(), next_delta(names={"q": variable("g9")}))


@given(st.lists(st.dictionaries(st.sampled_from("abcdef"), st.none() | st.integers(0, 5), max_size=4), max_size=8))
def test_deltas_add_up_to_what_a_dict_would_hold(steps: list[dict[str, int | None]]) -> None:
    """Whatever is set and deleted in whatever order, the manifest is what a plain dict is."""
    model: dict[str, str] = {}
    manifest: Manifest | None = None
    for n, changes in enumerate(steps, 1):
        names = {name: None if v is None else variable(f"{name}{v}", f"c{n}") for name, v in changes.items()}
        delta = Delta(
            checkpoint_id=CheckpointId(f"c{n}"),
            parent=None if manifest is None else manifest.checkpoint_id,
            names=names,
        )
        groups = [group(v.group_id, name) for name, v in names.items() if v is not None]
        manifest = step(manifest, delta, *groups)
        for name, v in names.items():
            if v is None:
                model.pop(name, None)
            else:
                model[name] = v.group_id
        assert model == {name: v.group_id for name, v in manifest.names.items()}
        assert set(model.values()) == set(manifest.groups)
        assert manifest == manifest_of(keyframe_body(manifest, "nb"))


def test_a_signed_manifest_is_read_and_every_flipped_bit_refused() -> None:
    """The right key reads it; any other byte in it is Integrity or, in the key's name, Untrusted."""
    body = canonical(keyframe_body(first(), "nb"))
    content = sign(body, KEY)
    digest = digest_of(body)
    read = open_signed("m", content, digest=digest, key=KEY, trusts=lambda _: False)
    assert first() == manifest_of(read)
    for offset in range(len(content)):
        altered = bytearray(content)
        altered[offset] ^= 1
        with pytest.raises((Integrity, Untrusted)):
            open_signed("m", bytes(altered), digest=digest, key=KEY, trusts=lambda _: False)


def test_a_foreign_or_unsigned_manifest_is_refused_unless_trusted() -> None:
    """Untrusted, with what to type; accepted when the user trusts exactly this file."""
    body = canonical(keyframe_body(first(), "nb"))
    other = SigningKey(b"somebody else's secret, long enough")
    for content in (sign(body, other), body + b"\n{}\n"):
        with pytest.raises(Untrusted) as caught:
            open_signed("m", content, digest=digest_of(body), key=KEY, trusts=lambda _: False)
        assert "trust" in caught.value.hint
        trusted = open_signed("m", content, digest=digest_of(body), key=KEY, trusts=lambda c, t=content: c == t)
        assert first() == manifest_of(trusted)
