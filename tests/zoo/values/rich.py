"""Values of rich."""

from __future__ import annotations

from durable_nb.testing.zoo import Value

LIBRARY = "rich"
SETUP = """
import io

import rich.console
import rich.markdown
import rich.panel
import rich.progress
import rich.style
import rich.syntax
import rich.table
import rich.text
import rich.theme
import rich.tree

def shown(renderable):
    console = rich.console.Console(file=io.StringIO(), width=40, color_system=None, force_jupyter=False)
    console.print(renderable)
    return console.file.getvalue()
"""
VALUES = [
    Value(
        cls="rich.console.Console",
        make="c1 = rich.console.Console(file=io.StringIO(), width=33, record=True, force_jupyter=False)\nc1.print('a')\nc1",
        check="x.file.getvalue() == 'a\\n' and x.width == 33 and [x.print('b'), x.export_text()][1] == 'a\\nb\\n'",
        keeps="exact",
        note="that writes into memory",
    ),
    Value(
        cls="rich.console.Console",
        make="rich.console.Console(width=50)",
        check="x.width == 50 and x.print('') is None",
        keeps="exact",
    ),
    Value(
        cls="rich.table.Table",
        make="table = rich.table.Table('a', 'b', title='t')\ntable.add_row('1', '[b]2[/b]')\ntable",
        check="x.row_count == 1 and '│ 1 │ 2 │' in shown(x)",
        keeps="exact",
    ),
    Value(
        cls="rich.text.Text",
        make="text = rich.text.Text('abc')\ntext.stylize('bold', 0, 1)\ntext",
        check="x.plain == 'abc' and str(x.spans[0].style) == 'bold'",
        keeps="exact",
    ),
    Value(
        cls="rich.style.Style",
        make="rich.style.Style.parse('bold red on blue')",
        check="x.bold and x.color.name == 'red'",
        keeps="exact",
    ),
    Value(cls="rich.panel.Panel", make="rich.panel.Panel('a', title='t')", check="'╭' in shown(x)", keeps="exact"),
    Value(
        cls="rich.tree.Tree",
        make="tree = rich.tree.Tree('a')\ntree.add('b')\ntree",
        check="'└── b' in shown(x)",
        keeps="exact",
    ),
    Value(
        cls="rich.markdown.Markdown",
        make="rich.markdown.Markdown('# a\\n* b')",
        check="'• b' in shown(x)",
        keeps="exact",
    ),
    Value(
        cls="rich.syntax.Syntax",
        make="rich.syntax.Syntax('a = 1', 'python')",
        check="'a = 1' in shown(x)",
        keeps="exact",
    ),
    Value(cls="rich.theme.Theme", make="rich.theme.Theme({'a': 'bold'})", check="x.styles['a'].bold", keeps="exact"),
    Value(
        cls="rich.progress.Progress",
        make="progress = rich.progress.Progress(console=rich.console.Console(file=io.StringIO(), force_jupyter=False))\n"
        "progress.add_task('t', total=4, completed=1)\nprogress",
        check="x.tasks[0].percentage == 25 and [x.advance(0, 1), x.tasks[0].completed][1] == 2",
        keeps="exact",
        note="one that is not being shown",
    ),
]
