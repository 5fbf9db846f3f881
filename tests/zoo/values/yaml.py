"""Values of yaml."""

from __future__ import annotations

from durable_nb.testing.zoo import Value

LIBRARY = "yaml"
SETUP = "import yaml"
VALUES = [
    Value(
        cls="yaml.nodes.MappingNode",
        make="yaml.compose('a: [1, 2]')",
        check="x.value[0][0].value == 'a' and x.value[0][1].value[1].start_mark.column == 7",
        keeps="exact",
    ),
    Value(
        cls="yaml.tokens.ScalarToken",
        make="[t for t in yaml.scan('a') if isinstance(t, yaml.ScalarToken)][0]",
        check="x.value == 'a' and x.plain",
        keeps="exact",
    ),
    Value(
        cls="yaml.events.ScalarEvent",
        make="[e for e in yaml.parse('a') if isinstance(e, yaml.ScalarEvent)][0]",
        check="x.value == 'a'",
        keeps="exact",
    ),
    Value(
        cls="yaml.constructor.ConstructorError",
        make="""
def refused():
    try:
        yaml.safe_load("!!python/name:os.system")
    except yaml.YAMLError as error:
        return error

refused()
""",
        check="'could not determine a constructor' in x.problem and x.problem_mark.line == 0",
        keeps="equal",
        note="its traceback is gone",
    ),
    Value(
        cls="type",
        make="class Loader(yaml.SafeLoader):\n    pass\n\nLoader.add_constructor('!twice', lambda l, n: l.construct_scalar(n) * 2)\nLoader",
        check="yaml.load('!twice a', x) == 'aa' and issubclass(x, yaml.SafeLoader)",
        keeps="exact",
        note="a loader class of the notebook with constructors of its own",
    ),
    Value(
        cls="yaml.loader.SafeLoader",
        make="yaml.SafeLoader('a: 1')",
        check="x.get_single_data() == {'a': 1}",
        keeps="exact",
        note="where it is in its text",
    ),
]
