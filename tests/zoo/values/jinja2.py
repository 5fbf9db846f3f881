"""Values of jinja2."""

from __future__ import annotations

from durable_nb.testing.zoo import Value

LIBRARY = "jinja2"
SETUP = "import jinja2\nimport markupsafe"
VALUES = [
    Value(
        cls="jinja2.environment.Environment",
        make="env = jinja2.Environment(loader=jinja2.DictLoader({'a': 'A {% block b %}{{ n|double }}{% endblock %}'}), "
        "trim_blocks=True)\nenv.filters['double'] = lambda n: n * 2\nenv",
        check="x.get_template('a').render(n=2) == 'A 4' and x.trim_blocks",
        keeps="exact",
        note="with filters of the notebook",
    ),
    Value(
        cls="jinja2.environment.Template",
        make="env.from_string('{% for i in items %}{{ loop.index }}{{ i|double }} {% endfor %}')",
        check="x.render(items=[3, 4]) == '16 28 ' and x.environment is env",
        keeps="exact",
    ),
    Value(
        cls="jinja2.environment.Template",
        make="jinja2.Template('Hello {{ name }}!')",
        check="x.render(name='a') == 'Hello a!'",
        keeps="exact",
        note="without an environment of its own",
    ),
    Value(
        cls="jinja2.loaders.DictLoader",
        make="jinja2.DictLoader({'a': 'b'})",
        check="x.list_templates() == ['a']",
        keeps="exact",
    ),
    Value(
        cls="jinja2.loaders.FileSystemLoader",
        make="jinja2.FileSystemLoader('.')",
        check="x.searchpath == ['.']",
        keeps="exact",
    ),
    Value(
        cls="jinja2.runtime.Undefined",
        make="jinja2.Undefined(name='a')",
        check="not x and x._undefined_name == 'a'",
        keeps="exact",
    ),
    Value(
        cls="jinja2.nodes.Template", make="env.parse('{{ a }}')", check="x.body[0].nodes[0].name == 'a'", keeps="exact"
    ),
    Value(
        cls="markupsafe.Markup",
        make="markupsafe.Markup('<b>%s</b>')",
        check="x % '<' == '<b>&lt;</b>'",
        keeps="exact",
    ),
]
