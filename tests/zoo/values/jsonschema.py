"""Values of jsonschema."""

from __future__ import annotations

from durable_nb.testing.zoo import Value

LIBRARY = "jsonschema"
SETUP = "import jsonschema"
VALUES = [
    Value(
        cls="jsonschema.validators.Draft202012Validator",
        make="jsonschema.Draft202012Validator({'type': 'object', 'required': ['a'], 'properties': {'a': {'$ref': '#/$defs/n'}}, "
        "'$defs': {'n': {'minimum': 3}}})",
        check="x.is_valid({'a': 3}) and [e.validator for e in x.iter_errors({'a': 1})] == ['minimum'] and not x.is_valid({})",
        keeps="exact",
    ),
    Value(
        cls="jsonschema.exceptions.ValidationError",
        make="next(jsonschema.Draft202012Validator({'minimum': 3}).iter_errors(1))",
        check="x.validator == 'minimum' and x.instance == 1 and x.json_path == '$'",
        keeps="equal",
        note="its traceback is gone",
    ),
]
