"""The option line of `%%durable`."""

from __future__ import annotations

import pytest

from durable_nb.engine.effects import CellOptions
from durable_nb.errors import UsageError
from durable_nb.kernel.completing import words_for
from durable_nb.kernel.options import OPTIONS, nearest, parse, working_options


def test_empty_line_is_an_unnamed_cell_with_defaults() -> None:
    """A bare `%%durable` has no name and every default."""
    assert parse("   ") == ("", CellOptions())


def test_every_working_option_reaches_its_field() -> None:
    """Each option sets the field of its keyword, in both spellings of a value."""
    line = (
        "train --rerun --setup --key 'len(df)' --depends a.csv --skip-if=done --include x --exclude y --durability sync"
    )
    expected = CellOptions(
        rerun=True,
        setup=True,
        key="len(df)",
        depends=("a.csv",),
        skip_if="done",
        include=("x",),
        exclude=("y",),
        durability="sync",
    )
    assert parse(line) == ("train", expected)


def test_lists_repeat_and_split_at_commas() -> None:
    """A list option may be repeated and may hold several items."""
    _name, options = parse("--depends a.csv,b.csv --depends='c d.csv' --exclude tmp_*,  --exclude _x")
    assert (options.depends, options.exclude) == (("a.csv", "b.csv", "c d.csv"), ("tmp_*", "_x"))


def test_quoted_expression_keeps_its_spaces_and_quotes() -> None:
    """An expression in quotes is one value, inner quotes included."""
    _name, options = parse("""--key 'd["a b"] > 3' --skip-if "x == -1" """)
    assert (options.key, options.skip_if) == ('d["a b"] > 3', "x == -1")


def test_expression_may_begin_with_a_dash() -> None:
    """A value is taken as it is unless it is itself an option."""
    assert parse("--key -n")[1].key == "-n"


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("--rerrun", "did you mean --rerun?"),
        ("--Rerun", "did you mean --rerun?"),
        ("-rerun", "did you mean --rerun?"),
        ("--zzzzzz", "the options are --rerun, --setup"),
        ("--key", "--key needs a value: --key EXPR"),
        ("--key --rerun", "--key needs a value"),
        ("--key 'a b'", "needs a Python expression"),
        ("--skip-if 'x ='", "needs a Python expression"),
        ("--rerun=yes", "--rerun takes no value"),
        ("--rerun --rerun", "given twice"),
        ("--depends ,", "--depends needs a value"),
        ("--durability fast", "--durability is sync or async, not 'fast'"),
        ("a b", "'a' and 'b' were given"),
        ("a/b", "'a/b' is not a name"),
        (f"{'n' * 101}", "is not a name"),
        ("'open", "no closing quotation"),
    ],
)
def test_wrong_lines_are_one_sentence_and_nothing_runs(line: str, words: str) -> None:
    """Whatever is wrong is told in one line, with what was probably meant, and that nothing ran."""
    with pytest.raises(UsageError) as caught:
        parse(line)
    message = str(caught.value)
    assert words in message
    assert message.endswith("The cell did not run.")
    assert "\n" not in message


@pytest.mark.parametrize("option", [option.name for option in OPTIONS if not option.available])
def test_later_options_are_refused_by_name(option: str) -> None:
    """An option of a later version is refused by name instead of being ignored or called unknown."""
    with pytest.raises(UsageError) as caught:
        parse(f"{option} 3")
    assert str(caught.value) == f"{option} comes with a later version of durable_nb; the cell did not run."


def test_later_durability_says_what_there_is() -> None:
    """`--durability exit` is refused with the modes that work now."""
    with pytest.raises(UsageError, match=r"--durability exit comes with a later version .*now there is sync or async"):
        parse("--durability exit")


def test_every_option_has_its_three_names() -> None:
    """The table gives each option a magic name, the same name as a keyword, and a description."""
    assert [(o.name, bool(o.description)) for o in OPTIONS] == [
        ("--" + o.keyword.replace("_", "-"), True) for o in OPTIONS
    ]
    assert {o.keyword for o in working_options()} == set(CellOptions.__dataclass_fields__)


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("%%durable --s", ["--setup", "--skip-if"]),
        ("%%durable name --max", []),
        ("%%durable --durability ", ["sync", "async"]),
        ("%%durable_sql --", ["--save"]),
        ("%durable st", ["status"]),
        ("%durable why ", ["first", "second", "--json"]),
        ("%durable restore --", ["--trust", "--eager", "--json"]),
        ("%durable on ", []),
        ("%durable help ve", ["verify"]),
    ],
)
def test_completion_offers_what_works(line: str, offered: list[str]) -> None:
    """Tab offers options, verbs and what they are about, and nothing that would be refused."""
    verbs = ("status", "why", "restore", "verify")
    found = words_for(line, verbs=verbs, subjects=lambda verb: ["first", "second"] if verb == "why" else [])
    assert found is not None
    assert found[1] == offered


@pytest.mark.parametrize("line", ["%%durable --key le", "%%durable --skip-if ", "%time du", "durable", ""])
def test_completion_leaves_expressions_and_other_lines_alone(line: str) -> None:
    """Where Python or another magic is expected, IPython's own completion answers."""
    assert words_for(line, verbs=(), subjects=lambda verb: []) is None


def test_nearest_gives_nothing_for_nonsense() -> None:
    """A guess is only made when it is close."""
    assert (nearest("stauts", ["status", "why"]), nearest("qqqq", ["status", "why"])) == ("status", "")
