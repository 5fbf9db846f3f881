"""Values of click."""

from __future__ import annotations

from durable_nb.testing.zoo import Value

LIBRARY = "click"
SETUP = """
import click
import click.testing

def said(command, *arguments):
    return click.testing.CliRunner().invoke(command, arguments)
"""
VALUES = [
    Value(
        cls="click.core.Command",
        make="""
@click.command()
@click.option("--count", default=2, show_default=True, type=click.IntRange(1, 5))
@click.argument("name", required=False)
def hello(count, name):
    click.echo(f"{name} {count}")

hello
""",
        check="said(x, 'a').output == 'a 2\\n' and said(x).output == 'None 2\\n' and said(x, '--count', '9').exit_code == 2 "
        "and '[default: 2; 1<=x<=5]' in said(x, '--help').output",
        keeps="exact",
        note="around a function of the notebook",
    ),
    Value(
        cls="click.core.Group",
        make="""
@click.group()
def tool():
    pass

tool.add_command(hello)
tool
""",
        check="said(x, 'hello', 'b').output == 'b 2\\n' and x.commands['hello'] is hello",
        keeps="exact",
    ),
    Value(
        cls="click.core.Option",
        make="click.Option(['--flag/--no-flag'], default=True)",
        check="x.is_flag and x.secondary_opts == ['--no-flag'] and x.name == 'flag'",
        keeps="exact",
    ),
    Value(
        cls="click.types.Choice",
        make="click.Choice(['a', 'b'], case_sensitive=False)",
        check="x.convert('A', None, None) == 'a'",
        keeps="exact",
    ),
    Value(
        cls="click.types.Path", make="click.Path(exists=True)", check="x.convert('.', None, None) == '.'", keeps="exact"
    ),
    Value(
        cls="click.exceptions.BadParameter",
        make="click.BadParameter('m', param_hint='h')",
        check="x.message == 'm' and x.param_hint == 'h' and x.exit_code == 2",
        keeps="equal",
        note="its traceback is gone",
    ),
]
