"""Values of pydantic."""

from __future__ import annotations

from durable_nb.testing.zoo import Value

LIBRARY = "pydantic"
SETUP = """
from typing import Annotated, Any, Generic, Literal, TypeVar

import pydantic
from pydantic import BaseModel, Field

class Address(BaseModel):
    street: str
    zip_code: str = Field(default="0", pattern="^[0-9]+$")

class User(BaseModel):
    model_config = pydantic.ConfigDict(validate_assignment=True, extra="allow")
    name: str
    age: int = Field(gt=0)
    address: Address | None = None
    tags: list[str] = Field(default_factory=list)
    _seen: int = pydantic.PrivateAttr(default=0)

    @pydantic.field_validator("name")
    @classmethod
    def no_blanks(cls, value: str) -> str:
        return value.strip()

    @pydantic.computed_field
    @property
    def label(self) -> str:
        return f"{self.name} ({self.age})"

def refused(call):
    try:
        call()
    except pydantic.ValidationError as error:
        return error.error_count()
    return 0
"""
VALUES = [
    Value(
        cls="pydantic.main.BaseModel",
        make="home = Address(street='s')\nuser = User(name=' a ', age='3', address=home, more=1)\n"
        "user.__dict__['address'] = home\nuser",
        check="x.label == 'a (3)' and x.address is home and x.more == 1 and type(x) is User "
        "and x.model_fields_set == {'name', 'age', 'address', 'more'} and refused(lambda: setattr(x, 'age', -1)) == 1",
        keeps="exact",
        note="an instance of a class of the notebook, with what it shares",
    ),
    Value(
        cls="pydantic.main.BaseModel",
        make="seen = User(name='b', age=1)\nseen._seen = 5\nseen",
        check="x._seen == 5 and x.model_copy()._seen == 5",
        keeps="exact",
        note="with private attributes",
    ),
    Value(
        cls="type",
        make="User",
        check="x is User and x(name=' b ', age=2).name == 'b' and refused(lambda: x(name='b', age=0)) == 1 "
        "and x.model_json_schema()['properties']['age']['exclusiveMinimum'] == 0 "
        'and x.model_validate_json(\'{"name": "c", "age": 1}\').age == 1 and isinstance(user, x)',
        keeps="exact",
        note="a model class of the notebook, with its validators",
    ),
    Value(
        cls="type",
        make="""
T = TypeVar("T")

class Page(BaseModel, Generic[T]):
    items: list[T]

IntPage = Page[int]
IntPage
""",
        check="x(items=['1']).items == [1] and Page[int] is x and Page[str](items=['a']).items == ['a'] "
        "and refused(lambda: x(items=['a'])) == 1",
        keeps="exact",
        note="a generic model with its parameter",
    ),
    Value(
        cls="pydantic.main.BaseModel",
        make="IntPage(items=[1, 2])",
        check="type(x) is IntPage and x.items == [1, 2] and isinstance(x, Page)",
        keeps="exact",
        note="an instance of a generic model",
    ),
    Value(
        cls="pydantic.root_model.RootModel",
        make="class Names(pydantic.RootModel[list[str]]):\n    pass\n\nNames(['a'])",
        check="x.root == ['a'] and x.model_dump() == ['a'] and type(x) is Names",
        keeps="exact",
    ),
    Value(
        cls="pydantic.type_adapter.TypeAdapter",
        make="pydantic.TypeAdapter(dict[str, list[int]])",
        check="x.validate_python({'a': ['1']}) == {'a': [1]} and x.dump_json({'a': [1]}) == b'{\"a\":[1]}'",
        keeps="exact",
    ),
    Value(
        cls="pydantic.type_adapter.TypeAdapter",
        make="pydantic.TypeAdapter(list[User])",
        check="type(x.validate_python([{'name': 'a', 'age': 1}])[0]) is User",
        keeps="exact",
        note="over a class of the notebook",
    ),
    Value(
        cls="pydantic.types.SecretStr",
        make="pydantic.SecretStr('hidden')",
        check="x.get_secret_value() == 'hidden' and 'hidden' not in repr(x)",
        keeps="exact",
    ),
    Value(
        cls="pydantic.main.BaseModel",
        make="""
class Cat(BaseModel):
    kind: Literal["cat"] = "cat"
    lives: int = 9

class Dog(BaseModel):
    kind: Literal["dog"] = "dog"

class Owner(BaseModel):
    pet: Annotated[Cat | Dog, Field(discriminator="kind")]

Owner.model_validate({"pet": {"kind": "cat"}})
""",
        check="type(x.pet) is Cat and type(Owner(pet={'kind': 'dog'}).pet) is Dog",
        keeps="exact",
        note="with a discriminated union",
    ),
    Value(
        cls="pydantic.main.BaseModel",
        make="""
class Tree(BaseModel):
    value: int
    children: list["Tree"] = []

Tree(value=1, children=[Tree(value=2)])
""",
        check="x.children[0].value == 2 and type(Tree(value=1, children=[{'value': 3}]).children[0]) is Tree",
        keeps="exact",
        note="of a class that refers to itself",
    ),
    Value(
        cls="pydantic.main.BaseModel",
        make="Made = pydantic.create_model('Made', a=(int, 3))\nMade(a=4)",
        check="x.a == 4 and Made().a == 3 and type(x) is Made",
        keeps="exact",
        note="of a class made by create_model",
    ),
    Value(
        cls="object",
        make="""
@pydantic.dataclasses.dataclass
class Size:
    width: int
    height: int = 1

Size('2')
""",
        check="(x.width, x.height) == (2, 1) and refused(lambda: Size('a')) == 1 and type(x) is Size",
        keeps="exact",
        note="a pydantic dataclass",
    ),
    Value(
        cls="pydantic.fields.FieldInfo",
        make="User.model_fields['age']",
        check="x.annotation is int and x.metadata[0].gt == 0",
        keeps="exact",
    ),
    Value(
        cls="pydantic_core.ValidationError",
        make="""
def failed():
    try:
        User(name="a", age=-1)
    except pydantic.ValidationError as error:
        return error

failed()
""",
        check="x.errors()[0]['loc'] == ('age',)",
        keeps="equal",
        note="its traceback is gone",
    ),
    Value(
        cls="pydantic.networks.HttpUrl",
        make="pydantic.TypeAdapter(pydantic.HttpUrl).validate_python('http://site.test/p')",
        check="x.host == 'site.test' and str(x) == 'http://site.test/p'",
        keeps="exact",
    ),
    Value(
        cls="function",
        make="@pydantic.validate_call\ndef double(n: int) -> int:\n    return n * 2\n\ndouble",
        check="x('4') == 8 and refused(lambda: x('a')) == 1",
        keeps="exact",
        note="checked by validate_call",
    ),
    Value(
        cls="pydantic_core.SchemaValidator",
        make="User.__pydantic_validator__",
        check="x.validate_python({'name': 'a', 'age': 1}).name == 'a'",
        keeps="exact",
    ),
    Value(
        cls="enum.Enum",
        make="""
import enum

class Kind(str, enum.Enum):
    A = "a"

class Thing(BaseModel):
    kind: Kind

Thing(kind="a").kind
""",
        check="x is Kind.A and Thing(kind='a').kind is Kind.A",
        keeps="exact",
        note="a field of an Enum of the notebook",
    ),
]
