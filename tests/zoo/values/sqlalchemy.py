"""Values of sqlalchemy."""

from __future__ import annotations

from durable_nb.testing.zoo import Value

LIBRARY = "sqlalchemy"
SETUP = """
import sqlalchemy as sa
from sqlalchemy import orm

class Base(orm.DeclarativeBase):
    pass

class Author(Base):
    __tablename__ = "authors"
    id: orm.Mapped[int] = orm.mapped_column(primary_key=True)
    name: orm.Mapped[str]
    books: orm.Mapped[list["Book"]] = orm.relationship(back_populates="author")

class Book(Base):
    __tablename__ = "books"
    id: orm.Mapped[int] = orm.mapped_column(primary_key=True)
    title: orm.Mapped[str] = orm.mapped_column(sa.String(50), index=True)
    author_id: orm.Mapped[int | None] = orm.mapped_column(sa.ForeignKey("authors.id"))
    author: orm.Mapped[Author | None] = orm.relationship(back_populates="books")

def stored(*objects):
    engine = sa.create_engine("sqlite://")
    Base.metadata.create_all(engine)
    with orm.Session(engine) as session:
        session.add_all(objects)
        session.commit()
        return [tuple(row) for row in session.execute(sa.select(Book.title, Author.name).join(Book.author))]

def sql(statement):
    return " ".join(str(statement).split())

metadata = sa.MetaData()
people = sa.Table(
    "people", metadata, sa.Column("id", sa.Integer, primary_key=True), sa.Column("name", sa.String(20), nullable=False)
)
"""
OPEN = "connections are open only in the process that made them"
VALUES = [
    Value(
        cls="sqlalchemy.engine.base.Engine",
        make="sa.create_engine('sqlite://')",
        check="x.dialect.name == 'sqlite'",
        keeps="reported",
        note=OPEN,
    ),
    Value(
        cls="sqlalchemy.engine.base.Connection",
        make="sa.create_engine('sqlite://').connect()",
        check="x.execute(sa.text('select 1')).scalar() == 1",
        keeps="reported",
        note=OPEN,
    ),
    Value(
        cls="sqlalchemy.orm.session.Session",
        make="orm.Session(sa.create_engine('sqlite://'))",
        check="x.is_active",
        keeps="reported",
        note=OPEN,
    ),
    Value(
        cls="sqlalchemy.orm.session.sessionmaker",
        make="orm.sessionmaker(sa.create_engine('sqlite://'))",
        check="x()",
        keeps="reported",
        note=f"with its engine; {OPEN}",
    ),
    Value(
        cls="type",
        make="Author",
        check="x is Author and x.__table__.name == 'authors' and x.books.property.mapper.class_ is Book "
        "and ('t', 'n') in stored(x(name='n', books=[Book(title='t')]))",
        keeps="exact",
        note="a mapped class of the notebook",
    ),
    Value(
        cls="type",
        make="told = []\n"
        "sa.event.listen(Book, 'init', lambda target, args, options: told.append(options['title']))\nBook",
        check="x.author.property.back_populates == 'books' and x(title='t', author=Author(name='n')).author.books[0]"
        ".title == 't' and told[-1] == 't'",
        keeps="exact",
        note="a mapped class with listeners of the notebook, both sides of a relationship alike",
    ),
    Value(
        cls="sqlalchemy.orm.decl_api.DeclarativeBase",
        make="writer = Author(name='w')\nwork = Book(title='v', author=writer)\nwork",
        check="x.author is writer and writer.books == [x] and type(x) is Book and ('v', 'w') in stored(x)",
        keeps="exact",
        note="an instance of a mapped class, not stored in a database yet",
    ),
    Value(
        cls="sqlalchemy.sql.schema.MetaData",
        make="metadata",
        check="x is metadata and list(x.tables) == ['people'] and x.tables['people'] is people",
        keeps="exact",
    ),
    Value(
        cls="sqlalchemy.sql.schema.Table",
        make="people",
        check="x is people and x.c.name.type.length == 20 and not x.c.name.nullable and x.metadata is metadata "
        "and sql(sa.schema.CreateTable(x)).startswith('CREATE TABLE people')",
        keeps="exact",
    ),
    Value(
        cls="sqlalchemy.sql.schema.Column",
        make="people.c.name",
        check="x is people.c.name and sql(x == 'a') == 'people.name = :name_1'",
        keeps="exact",
    ),
    Value(
        cls="sqlalchemy.sql.selectable.Select",
        make="sa.select(people.c.name).where(people.c.id > 3).order_by(people.c.name)",
        check="sql(x) == 'SELECT people.name FROM people WHERE people.id > :id_1 ORDER BY people.name' "
        "and x.get_final_froms() == [people] and x.compile().params == {'id_1': 3}",
        keeps="exact",
    ),
    Value(
        cls="sqlalchemy.sql.selectable.Select",
        make="sa.select(Book).join(Book.author).where(Author.name == 'n')",
        check="'JOIN authors ON authors.id = books.author_id' in sql(x) and x.column_descriptions[0]['entity'] is Book",
        keeps="exact",
        note="of mapped classes",
    ),
    Value(
        cls="sqlalchemy.sql.dml.Insert",
        make="sa.insert(people).values(id=1, name='a')",
        check="x.compile().params == {'id': 1, 'name': 'a'} and x.table is people",
        keeps="exact",
    ),
    Value(
        cls="sqlalchemy.sql.elements.TextClause",
        make="sa.text('select :a').bindparams(a=3)",
        check="x.compile().params == {'a': 3}",
        keeps="exact",
    ),
    Value(
        cls="sqlalchemy.sql.elements.BinaryExpression",
        make="(people.c.id + 1) > 3",
        check="sql(x) == 'people.id + :id_1 > :param_1'",
        keeps="exact",
    ),
    Value(
        cls="sqlalchemy.engine.url.URL",
        make="sa.make_url('postgresql://u:p@h:1/d')",
        check="x.port == 1 and x.password == 'p' and 'p@' not in repr(x)",
        keeps="exact",
    ),
    Value(
        cls="sqlalchemy.sql.sqltypes.Numeric",
        make="sa.Numeric(10, 2)",
        check="(x.precision, x.scale) == (10, 2)",
        keeps="exact",
    ),
    Value(
        cls="sqlalchemy.engine.row.Row",
        make="""
def one_row():
    with sa.create_engine("sqlite://").connect() as connection:
        return connection.execute(sa.text("select 1 as a, 'b' as c")).one()

one_row()
""",
        check="x.a == 1 and x._mapping['c'] == 'b' and tuple(x) == (1, 'b')",
        keeps="exact",
    ),
    Value(
        cls="sqlalchemy.orm.mapper.Mapper",
        make="sa.inspect(Author)",
        check="x is sa.inspect(Author) and x.class_ is Author",
        keeps="exact",
    ),
]
