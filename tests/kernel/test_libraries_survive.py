"""What libraries and the shell hold for the notebook beyond its variables, after a loss.

Every test runs real kernels.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from durable_nb.testing.lives import Lives


@pytest.fixture
def lives(tmp_path: Path) -> Iterator[Lives]:
    """A notebook whose every cell is durable."""
    with Lives(tmp_path) as started:
        yield started


def test_lazy_frames_go_on_seeing_the_variables_of_the_notebook(lives: Lives) -> None:
    """A function in an expression reads a variable as it is when the frame is collected, after each of two losses."""
    pytest.importorskip("polars")
    lives.run(
        "import polars as pl\nlog = []\noff = 10",
        "def plus(v):\n    log.append(v)\n    return v + off\n"
        "def minus(frame):\n    return frame - off // 1000\n"
        "lf = pl.DataFrame({'a': [1]}).lazy().select(pl.col('a').map_elements(plus, return_dtype=pl.Int64))\n"
        "lf = lf.map_batches(minus)",
    )
    for expected in (111, 211):
        lives.kill()
        assert lives.value("[u.name for u in __import__('durable_nb').unsaved()]") == []
        lives.run("off += 100")
        assert lives.value("[lf.collect()['a'].to_list(), log[-1:]]") == [[expected], [1]]


def test_mapped_classes_keep_their_listeners(lives: Lives) -> None:
    """Both sides of a relationship stay alike, and a listener of the notebook is called."""
    pytest.importorskip("sqlalchemy")
    lives.run(
        "import sqlalchemy as sa\nfrom sqlalchemy import event, orm\nfrom sqlalchemy.orm import Mapped, mapped_column\n"
        "class Base(orm.DeclarativeBase):\n    pass\n"
        "class User(Base):\n    __tablename__ = 'users'\n    id: Mapped[int] = mapped_column(primary_key=True)\n"
        "    posts: Mapped[list['Post']] = orm.relationship(back_populates='user')\n"
        "class Post(Base):\n    __tablename__ = 'posts'\n    id: Mapped[int] = mapped_column(primary_key=True)\n"
        "    user_id: Mapped[int | None] = mapped_column(sa.ForeignKey('users.id'))\n"
        "    user: Mapped[User | None] = orm.relationship(back_populates='posts')\norm.configure_mappers()\n"
        "evs = []",
        "@event.listens_for(User, 'init')\ndef on_init(target, args, kwargs):\n    evs.append('init')",
    )
    lives.kill()
    lives.run("u = User()\np = Post()\nu.posts.append(p)")
    assert lives.value("[p.user is u, evs]") == [True, ["init"]]


def test_features_of_the_future_stay_on_and_run_no_cell_again(lives: Lives) -> None:
    """Annotations that are not evaluated stay so after a loss, and cells above the import are skipped as before."""
    cells = ["x = 1", "from __future__ import annotations", "def f(a: Undefined):\n    return a"]
    lives.run(*cells)
    lives.kill()
    lives.run("def g(a: Undefined):\n    return f(a)")
    assert lives.value("[g(2), g.__annotations__]") == [2, {"a": "Undefined"}]
    lives.kill()
    assert lives.run_all(cells) == [True, True, True]


def test_an_open_recording_of_warnings_goes_on(lives: Lives) -> None:
    """What a cell began to record is recorded in its list after a loss, until it ends it; without a name it is told."""
    lives.run(
        "import warnings\nrecording = warnings.catch_warnings(record=True)\nheard = recording.__enter__()\n"
        "warnings.simplefilter('always')"
    )
    assert lives.value("[u.name for u in __import__('durable_nb').unsaved()]") == []
    lives.kill()
    lives.run("warnings.warn('one')", "recording.__exit__(None, None, None)")
    lives.kernel.run("warnings.warn('two')")
    assert lives.value("[str(w.message) for w in heard]") == ["one"]
    assert lives.value("[u.name for u in __import__('durable_nb').unsaved()]") == []
    lives.run("another = warnings.catch_warnings(record=True)\n_ = another.__enter__()\ndel _")
    name = "warnings.catch_warnings(record=True)"
    assert lives.value("[u.name for u in __import__('durable_nb').unsaved()]") == [name]
    lives.kill()
    assert lives.value("[u.name for u in __import__('durable_nb').unsaved()]") == [name]
