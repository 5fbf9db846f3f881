"""Values of tomlkit."""

from __future__ import annotations

from durable_nb.testing.zoo import Value

LIBRARY = "tomlkit"
SETUP = "import tomlkit"
VALUES = [
    Value(
        cls="tomlkit.toml_document.TOMLDocument",
        make="toml = tomlkit.parse('# c\\n[a]\\nb = 1 # d\\n')\ntoml",
        check="x['a']['b'] == 1 and x.as_string() == '# c\\n[a]\\nb = 1 # d\\n'",
        keeps="exact",
        note="with its comments",
    ),
    Value(
        cls="tomlkit.items.Table",
        make="toml['a']",
        check="x['b'] == 1 and x is toml['a']",
        keeps="exact",
        note="still a part of its document",
    ),
]
