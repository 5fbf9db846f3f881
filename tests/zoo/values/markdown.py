"""Values of markdown."""

from __future__ import annotations

from durable_nb.testing.zoo import Value

LIBRARY = "markdown"
SETUP = "import markdown\nimport markdown.extensions.toc"
VALUES = [
    Value(
        cls="markdown.core.Markdown",
        make="md = markdown.Markdown(extensions=['tables', 'fenced_code'])\nmd.convert('# a')\nmd",
        check="x.reset().convert('|a|\\n|-|\\n|1|').startswith('<table>') and x.convert('*b*') == '<p><em>b</em></p>'",
        keeps="exact",
    ),
    Value(
        cls="markdown.extensions.toc.TocExtension",
        make="markdown.extensions.toc.TocExtension(permalink=True)",
        check="x.getConfig('permalink') is True and 'headerlink' in markdown.markdown('# a', extensions=[x])",
        keeps="exact",
    ),
]
