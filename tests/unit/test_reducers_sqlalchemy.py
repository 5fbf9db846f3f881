"""Mapped classes and tables of SQLAlchemy come back with what listens to them."""

from __future__ import annotations

import pytest

from durable_nb.testing.notebook import Notebook

pytest.importorskip("sqlalchemy")

MODEL = """
import sqlalchemy as sa
from sqlalchemy import event, orm

class Base(orm.DeclarativeBase):
    pass

class User(Base):
    __tablename__ = "users"
    __mapper_args__ = {"polymorphic_on": "kind", "polymorphic_identity": "user"}
    id: orm.Mapped[int] = orm.mapped_column(primary_key=True)
    name: orm.Mapped[str]
    kind: orm.Mapped[str | None]
    posts: orm.Mapped[list["Post"]] = orm.relationship(back_populates="user", cascade="all, delete-orphan")

    @orm.validates("name")
    def upper(self, key, value):
        return value.upper()

class Admin(User):
    __mapper_args__ = {"polymorphic_identity": "admin"}

class Post(Base):
    __tablename__ = "posts"
    id: orm.Mapped[int] = orm.mapped_column(primary_key=True)
    user_id: orm.Mapped[int | None] = orm.mapped_column(sa.ForeignKey("users.id"))
    user: orm.Mapped[User | None] = orm.relationship(back_populates="posts")

orm.configure_mappers()
metadata = sa.MetaData()
table = sa.Table("things", metadata, sa.Column("id", sa.Integer, primary_key=True))
seen = []
"""
LISTENERS = """
@event.listens_for(User, "init", propagate=True)
def on_init(target, args, kwargs):
    seen.append("init")

@event.listens_for(User, "before_insert", propagate=True)
def on_insert(mapper, connection, target):
    seen.append(target.name)

@event.listens_for(User.name, "set", retval=True)
def on_set(target, value, old, initiator):
    return value + "!"

def telling(told):
    def tell(*args, **kwargs):
        told.append("created")
    return tell

told = []
event.listen(table, "after_create", telling(told))
"""
USE = """
seen.clear()
user, post = Admin(name="b"), Post()
user.posts.append(post)
assert post.user is user
engine = sa.create_engine("sqlite://")
Base.metadata.create_all(engine)
metadata.create_all(engine)
with orm.Session(engine) as session:
    session.add(user)
    session.commit()
    session.delete(user)
    session.commit()
    assert session.scalars(sa.select(Post)).all() == []
assert seen == ["init", "B"] and told == ["created"], (seen, told)
assert User(name="z").name == "Z!"
"""


def test_mapped_classes_come_back_with_their_listeners() -> None:
    """Both sides of a relationship, cascades, validators and listeners of the notebook work as before."""
    notebook = Notebook()
    notebook.run(MODEL)
    notebook.run(LISTENERS)
    assert {} == notebook.unsaved
    notebook.restored().check(USE)


def test_listeners_can_be_named_after_a_restore() -> None:
    """`event.contains` finds them, `event.listen` does not add one twice, `event.remove` takes them away."""
    notebook = Notebook()
    notebook.run(MODEL)
    notebook.run(LISTENERS)
    notebook.restored().check(
        "assert event.contains(User, 'init', on_init) and event.contains(User, 'before_insert', on_insert)\n"
        "assert event.contains(User.name, 'set', on_set)\n"
        "event.listen(User.name, 'set', on_set, retval=True)\nassert User(name='z').name == 'Z!'\n"
        "event.remove(User, 'init', on_init)\nseen.clear()\nUser(name='z')\nAdmin(name='z')\nassert seen == []"
    )
