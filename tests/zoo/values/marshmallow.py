"""Values of marshmallow."""

from __future__ import annotations

from durable_nb.testing.zoo import Value

LIBRARY = "marshmallow"
SETUP = """
import marshmallow
from marshmallow import Schema, fields, validate

class Item(Schema):
    name = fields.Str(required=True, validate=validate.Length(max=3))
    price = fields.Decimal(load_default=1)

    @marshmallow.post_load
    def shown(self, data, **options):
        return {**data, "loaded": True}

class Order(Schema):
    items = fields.List(fields.Nested(Item))
"""
VALUES = [
    Value(
        cls="marshmallow.schema.Schema",
        make="Item(only=('name',))",
        check="x.load({'name': 'a'}) == {'name': 'a', 'loaded': True} and x.validate({'name': 'long'}) and type(x) is Item",
        keeps="exact",
        note="of a class of the notebook",
    ),
    Value(
        cls="type",
        make="Order",
        check="x().load({'items': [{'name': 'a', 'price': '2'}]})['items'][0]['price'] == 2 and x is Order",
        keeps="exact",
        note="a schema class of the notebook",
    ),
    Value(
        cls="marshmallow.fields.Nested",
        make="fields.Nested(Item, many=True)",
        check="x.schema.many and type(x.schema) is Item",
        keeps="exact",
    ),
    Value(
        cls="marshmallow.fields.DateTime",
        make="fields.DateTime(format='iso')",
        check="x.deserialize('2024-01-02T03:04:05').year == 2024",
        keeps="exact",
    ),
    Value(
        cls="marshmallow.validate.Range",
        make="validate.Range(min=1, max=3)",
        check="x(2) == 2 and x.min == 1",
        keeps="exact",
    ),
    Value(
        cls="marshmallow.exceptions.ValidationError",
        make="marshmallow.ValidationError({'a': ['wrong']}, valid_data={'b': 1})",
        check="x.messages == {'a': ['wrong']} and x.valid_data == {'b': 1}",
        keeps="equal",
        note="its traceback is gone",
    ),
]
