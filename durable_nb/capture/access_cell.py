"""What the calls, magics, attributes and assignments of a cell mean for its inputs and its effects.

Called by `access.analyse` only; extends the walk over names. Nothing is executed and nothing is imported.
"""

from __future__ import annotations

import ast
import builtins
import re
import sys
from collections.abc import Iterable, Mapping
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any

from durable_nb.capture import access_rules as rules
from durable_nb.capture import plainly
from durable_nb.capture.access_ast import Flow

__all__ = ["ABSENT", "Cell"]

ABSENT = object()
_is = plainly.is_a
_LINE = re.compile(r"[^\r\n]*(?:\r\n|\n|\r|\Z)")
_LINE_MAGIC = re.compile(r"^(\s*)(?:([\w.,\s\[\]]+?)\s*=\s*)?(%|!!?)(.*)$")
_SHELL_NAME = re.compile(r"\$\{?([A-Za-z_]\w*)")
_SHELL_EXPRESSION = re.compile(r"\{([^{}]+)\}")
_MAGIC_CALLS = frozenset({"run_line_magic", "run_cell_magic", "magic", "system", "getoutput", "getoutput_pprint"})


def _plain_python(text: str) -> str:
    """Rewrite the magics and shell lines of a cell magic's body as calls, as IPython does."""
    lines = []
    for line in text.splitlines():
        match = _LINE_MAGIC.match(line)
        if match is None:
            lines.append(line)
            continue
        indent, target, mark, rest = match.groups()
        if mark == "%":
            name, _, args = rest.strip().partition(" ")
            call = f"get_ipython().run_line_magic({name!r}, {args!r})"
        else:
            call = f"get_ipython().{'getoutput' if target or mark == '!!' else 'system'}({rest!r})"
        lines.append(f"{indent}{target + ' = ' if target else ''}{call}")
    return "\n".join(lines)


def _home(value: Any) -> tuple[str, str]:
    """Return the module and the name of a module, class or function, empty for other objects."""
    if _is(value, ModuleType):
        return str(value.__name__), ""
    if _is(value, type):
        return plainly.module(value), plainly.name(value)
    if _is(value, (FunctionType, BuiltinFunctionType)):
        return str(value.__module__), str(value.__name__)
    return "", ""


def _is_identifier_edge(character: str) -> bool:
    return character == "_" or character.isalnum()


class Cell(Flow):
    """The walk over one cell's own code; `use` and `stores` are its result."""

    def __init__(self, namespace: Mapping[str, object], tree: ast.Module, source: str = "") -> None:
        super().__init__(namespace)
        self._tree = tree
        self._source = source
        self._lines: list[bytes] = []
        self._texts: dict[str, list[ast.expr]] | None = None
        self.reached: list[object] = []  # what imports of this cell and attributes of modules stand for

    def _shown(self, node: ast.expr) -> str:
        """Return a piece of code as the person wrote it."""
        if node.end_lineno is None or node.end_col_offset is None:
            return ast.unparse(node)
        if not self._lines:
            # `ast.get_source_segment` splits the whole source for every piece.
            self._lines = [found[0].encode() for found in _LINE.finditer(self._source)]
        lines = self._lines[node.lineno - 1 : node.end_lineno]
        if not lines:
            return ast.unparse(node)
        lines[-1] = lines[-1][: node.end_col_offset]
        lines[0] = lines[0][node.col_offset :]
        return b"".join(lines).decode() or ast.unparse(node)

    # -- what a name stands for ----------------------------------------------------------------------------------

    def value_of(self, node: ast.expr) -> Any:
        """Resolve a name or a chain of module attributes; `ABSENT` when the value is not known before running."""
        if isinstance(node, ast.Attribute):
            owner = self.value_of(node.value)
            return vars(owner).get(node.attr, ABSENT) if _is(owner, ModuleType) else ABSENT
        if not isinstance(node, ast.Name) or self.is_local(node.id):
            return ABSENT
        if node.id in self.imported:
            module, attribute = self.imported[node.id]
            loaded = sys.modules.get(module, ABSENT)
            if not attribute or not _is(loaded, ModuleType):
                return loaded
            return sys.modules.get(f"{module}.{attribute}", vars(loaded).get(attribute, ABSENT))
        if node.id in self.stores:
            return ABSENT
        return self.namespace.get(node.id, ABSENT)

    def is_installed(self, name: str) -> bool:
        if name in self.imported:
            return self.imported[name][0] not in ("", "__main__")
        return name not in self.stores and _home(self.namespace.get(name))[0] not in ("", "__main__")

    def star_names(self, module: str) -> Iterable[str]:
        loaded = sys.modules.get(module)
        if loaded is None:
            return ()
        return getattr(loaded, "__all__", None) or [n for n in vars(loaded) if not n.startswith("_")]

    def load(self, name: str) -> None:
        super().load(name)
        if name in self.imported and not self.is_local(name):
            module, attribute = self.imported[name]
            self.note_unseen(module if attribute != "path" else "")
            self.reached.append(self.value_of(ast.Name(id=name, ctx=ast.Load())))
        if name == "input" and name not in self.namespace and not self.is_local(name):
            self.use.unknown.add("input()")

    def note_unseen(self, module: str) -> None:
        """Note that a module is used whose reads no audit event shows."""
        reason = rules.UNSEEN_MODULES.get(module.partition(".")[0])
        if reason is not None and not module.startswith(("urllib.parse", "http.HTTPStatus")):
            self.use.unknown.add(reason)

    # -- attributes and calls ------------------------------------------------------------------------------------

    def visit_Subscript(self, node: ast.Subscript) -> None:  # noqa: N802
        name = node.value.id if isinstance(node.value, ast.Name) else ""
        if isinstance(node.slice, ast.Constant):
            if (
                isinstance(node.slice.value, int)
                and name not in self.stores
                and name in ("Out", "_oh")
                and rules.history_name(name, self.namespace)
            ):
                self.use.loads.add(f"_{node.slice.value}")
                return
            if node.slice.value == "__main__":
                self.use.everything.append("the module of the notebook may give any name")
        self._note_change(node)
        self.generic_visit(node)

    def visit_Attribute(self, node: ast.Attribute) -> None:  # noqa: N802
        self.use.seeds |= rules.sets_stream(node.attr)
        root = node.value.id if isinstance(node.value, ast.Name) else ""
        is_builtins = root == "builtins" or self.value_of(node.value) is builtins
        opener = getattr(builtins, node.attr, None) if is_builtins else None
        if node.attr in rules.EVERYTHING_ATTRIBUTES or rules.opens_everything(opener):
            self.use.everything.append(f".{node.attr} may read any name")
        elif node.attr in rules.C_READERS or (
            node.attr.startswith(("read_", "scan_")) and self._is_module(root, "polars")
        ):
            self.use.unknown.add(f"{node.attr} may read files unseen")
        elif node.attr in rules.OS_PROGRAMS and root == "os":
            self.use.unknown.add("shell command")
        if _is(value := self.value_of(node), FunctionType):
            self.reached.append(value)
        self._note_change(node)
        self.generic_visit(node)

    def _is_module(self, name: str, module: str) -> bool:
        if name in self.imported:
            return self.imported[name][0] == module
        return _home(self.namespace.get(name)) == (module, "")

    def visit_Call(self, node: ast.Call) -> None:  # noqa: N802
        function = node.func
        if isinstance(function, ast.Attribute) and self._magic(function, node):
            return
        name = function.id if isinstance(function, ast.Name) else getattr(function, "attr", "")
        first = node.args[0] if node.args else None
        if isinstance(function, ast.Name) and not self.is_local(name) and name not in self.stores:
            self._builtin_call(name, node)
        if name in ("import_module", "__import__"):
            if isinstance(first, ast.Constant) and isinstance(first.value, str) and first.value != "__main__":
                self.use.modules.add(first.value)
            else:
                self.use.everything.append("a module chosen at run time may give any name")
        if name in rules.QUERY_CALLS and not (isinstance(function, ast.Name) and name in ("eval", "exec")):
            texts = [*node.args[:1], *(k.value for k in node.keywords if k.arg in ("expr", "sql", "query"))]
            if not all(self._is_known_text(t) for t in texts):
                self.use.everything.append(f"{name}() gets a text made at run time, which may name anything")
        self._note_effect_call(node)
        self.generic_visit(node)

    def _builtin_call(self, name: str, node: ast.Call) -> None:
        if name in ("vars", "locals", "dir") and not node.args and name not in self.namespace:
            if not self.in_function:
                self.use.everything.append(f"{name}() reads all names")
        elif name in ("setattr", "delattr") and node.args:
            self._note_target(node.args[0], node, direct=True)

    # -- texts that are looked up at run time --------------------------------------------------------------------

    def _is_known_text(self, node: ast.expr, depth: int = 0) -> bool:
        """Tell whether all identifiers of a query are in string constants, where they are counted as reads."""
        if isinstance(node, ast.Constant):
            return True
        if isinstance(node, ast.Name):
            if node.id in self.stores:
                texts = self._assigned().get(node.id, []) if depth < 3 else []
                return bool(texts) and all(self._is_known_text(t, depth + 1) for t in texts)
            # A string of the namespace is scanned when the name is followed; anything else is no text.
            return not self.is_local(node.id) and node.id in self.namespace
        if isinstance(node, ast.JoinedStr):
            return self._is_known_fstring(node)
        # Numbers, lists, lambdas and comparisons are not text; calls and operators may build one.
        return isinstance(node, (ast.Compare, ast.Lambda, ast.List, ast.Dict, ast.Tuple))

    def _is_known_fstring(self, node: ast.JoinedStr) -> bool:
        for position, part in enumerate(node.values):
            if not isinstance(part, ast.FormattedValue):
                continue
            before = node.values[position - 1] if position else None
            after = node.values[position + 1] if position + 1 < len(node.values) else None
            touches = (
                isinstance(before, ast.FormattedValue)
                or isinstance(after, ast.FormattedValue)
                or (isinstance(before, ast.Constant) and _is_identifier_edge(str(before.value)[-1:] or " "))
                or (isinstance(after, ast.Constant) and _is_identifier_edge(str(after.value)[:1] or " "))
            )
            value = self.value_of(part.value)
            if not _is(value, (int, float)) and (touches or not _is(value, str)):
                return False
        return True

    def _assigned(self) -> dict[str, list[ast.expr]]:
        if self._texts is None:
            self._texts = {}
            for node in ast.walk(self._tree):
                if isinstance(node, ast.Assign):
                    for target in node.targets:
                        for name in ast.walk(target):
                            if isinstance(name, ast.Name):
                                # Unpacking and the like give a value that is no plain text.
                                text = node.value if name is target else ast.Call(func=node.value, args=[], keywords=[])
                                self._texts.setdefault(name.id, []).append(text)
                elif isinstance(node, (ast.AugAssign, ast.For, ast.NamedExpr)):
                    for name in ast.walk(node.target):
                        if isinstance(name, ast.Name):
                            self._texts.setdefault(name.id, []).append(ast.Call(func=name, args=[], keywords=[]))
        return self._texts

    # -- effects on what no delta holds --------------------------------------------------------------------------

    def _note_change(self, node: ast.Attribute | ast.Subscript) -> None:
        if not isinstance(node.ctx, ast.Load):
            self._note_target(node.value, node, direct=True)

    def _note_target(self, owner: ast.expr, whole: ast.expr, *, direct: bool) -> None:
        """Note a change of `owner` if it hangs on a module or on a class that the notebook does not define."""
        root, links = owner, 0
        while True:
            if isinstance(root, (ast.Attribute, ast.Subscript)):
                root, links = root.value, links + 1
            elif isinstance(root, ast.Call) and not root.args and not root.keywords:
                # `decimal.getcontext().prec = 50`: what a function without arguments returns is often the shared one.
                root = root.func
            else:
                break
        if not isinstance(root, ast.Name) or not (direct or links):
            return
        value = self.value_of(root)
        # `plt.rcParams` is `matplotlib.pyplot.rcParams`, whatever the module is called here.
        real = ".".join(part for part in _home(value) if part) or root.id
        dotted = real + ast.unparse(owner)[len(root.id) :]
        if rules.is_process_state(dotted):
            return
        shown = self._shown(whole)
        if value is ABSENT and root.id in self.imported and not self.is_local(root.id):
            self.use.effects.append(f"{shown} changes something imported")
        elif _is(value, ModuleType) and value.__name__ != "__main__":
            self.use.effects.append(f"{shown} changes the module {value.__name__}")
        elif _is(value, type) and plainly.module(value) != "__main__":
            self.use.effects.append(f"{shown} changes the imported class {plainly.qualname(value)}")
        elif links == 0 and root.id in self.imported and not _is(value, (int, float, str, bytes, tuple)):
            self.use.effects.append(f"{shown} changes the imported object {root.id}")

    def _note_effect_call(self, node: ast.Call) -> None:
        function = node.func
        if isinstance(function, ast.Attribute) and function.attr in rules.MUTATORS:
            owner = function.value
            direct = isinstance(owner, ast.Name) and not _is(self.value_of(owner), (ModuleType, type))
            if not _is(self.value_of(owner), (ModuleType, type)) and not self._registers_own(owner, node):
                self._note_target(owner, node, direct=direct)
        root = function
        while isinstance(root, ast.Attribute):
            root = root.value
        if not isinstance(root, ast.Name) or self.is_local(root.id):
            return
        module, attribute = self.imported.get(root.id, ("", ""))
        value = self.namespace.get(root.id)
        if not module and root.id not in self.stores:
            module, attribute = _home(value)
        tail = function.attr if isinstance(function, ast.Attribute) else ""
        dotted = ".".join(p for p in (module, attribute, tail) if p)
        if dotted.lstrip("_") in rules.EFFECT_CALLS:
            self.use.effects.append(f"{self._shown(function)}(…) changes the interpreter")

    def _registers_own(self, owner: ast.expr, call: ast.Call) -> bool:
        """Tell whether a call puts a finder of the notebook among those of the process: kept there like a variable."""
        if not (isinstance(owner, ast.Attribute) and owner.attr in ("meta_path", "path_hooks") and call.args):
            return False
        if self.value_of(owner.value) is not sys or call.func.attr not in ("append", "insert"):  # type: ignore[attr-defined]
            return False
        added = call.args[-1]
        made = added.func if isinstance(added, ast.Call) else added
        if not isinstance(made, ast.Name) or made.id in self.imported or self.is_local(made.id):
            return False
        if made.id in self.stores:
            # Before the cell runs only its text can tell.
            kinds = (ast.ClassDef,) if isinstance(added, ast.Call) else (ast.ClassDef, ast.FunctionDef)
            return any(isinstance(node, kinds) and node.name == made.id for node in self._tree.body)
        value = self.namespace.get(made.id)
        if isinstance(added, ast.Call):
            return _is(value, type) and _home(value)[0] == "__main__"
        return (_home(value)[0] or plainly.module(type(value))) == "__main__"

    # -- magics --------------------------------------------------------------------------------------------------

    def _magic(self, function: ast.Attribute, node: ast.Call) -> bool:
        owner = function.value
        if not (isinstance(owner, ast.Call) and isinstance(owner.func, ast.Name) and owner.func.id == "get_ipython"):
            return False
        texts = [a.value for a in node.args if isinstance(a, ast.Constant) and isinstance(a.value, str)]
        if function.attr not in _MAGIC_CALLS or len(texts) != len(node.args) or not texts:
            return False
        if function.attr == "run_line_magic" and len(texts) >= 2:
            self._line_magic(texts[0], texts[1])
        elif function.attr == "run_cell_magic" and len(texts) >= 3:
            self._cell_magic(texts[0], texts[1], texts[2])
        elif function.attr == "magic":
            name, _, rest = texts[0].partition(" ")
            self._line_magic(name, rest)
        else:
            self._shell(texts[0], "shell command")
        return True

    def _shell(self, text: str, reason: str) -> None:
        self.use.unknown.add(reason)
        self._interpolated(text)
        self.words(text)

    def _interpolated(self, text: str) -> None:
        """Note the names in `$name` and `{expression}`, which IPython replaces by their values."""
        for name in _SHELL_NAME.findall(text):
            if name in self.namespace or name in self.stores:
                self.load(name)
        for expression in _SHELL_EXPRESSION.findall(text):
            try:
                tree = ast.parse(expression.strip(), mode="eval")
            except SyntaxError:
                # The shell's own braces: IPython leaves them alone as well.
                continue
            self.visit(tree.body)

    def _code(self, text: str, magic: str) -> None:
        """Analyse the body of a magic that runs Python in the namespace."""
        try:
            tree = ast.parse(_plain_python(text))
        except SyntaxError:
            self.use.everything.append(f"{magic} holds code that cannot be read")
            return
        if self._scopes:
            self._all(tree.body)
        else:
            self.run(tree.body)

    @staticmethod
    def _without_options(line: str) -> str:
        return re.sub(r"^(?:\s*-{1,2}\w+(?:[= ]?[\d.]+)?(?=\s|$))+", "", line).strip()

    def _line_magic(self, name: str, line: str) -> None:
        self._interpolated(line)
        if name in rules.CODE_LINE_MAGICS:
            self._code(self._without_options(line), f"%{name}")
        elif name in rules.SQL_MAGICS:
            self.use.unknown.add(name)
            self.words(line)
        elif name in rules.SHELL_LINE_MAGICS:
            self._shell(line, f"shell command %{name}")
        elif name in rules.HARMLESS_LINE_MAGICS:
            self.words(line)
        else:
            self.use.everything.append(f"%{name} may read any name")

    def _cell_magic(self, name: str, line: str, body: str) -> None:
        self._interpolated(line)
        if name in rules.CODE_CELL_MAGICS:
            # `%%timeit` takes a set-up statement from its own line.
            setup = self._without_options(line) if name in ("time", "timeit") else ""
            if setup:
                self._code(setup, f"%%{name}")
            self._code(body, f"%%{name}")
            if name == "capture":
                for word in rules.IDENTIFIER.findall(re.sub(r"--?[\w-]+", "", line)):
                    self.store(word)
        elif name in rules.SHELL_CELL_MAGICS:
            self._shell(body, f"%%{name}")
            for word in re.findall(r"--(?:out|err|proc)[= ]+(\w+)", line):
                self.store(word)
        elif name in rules.SQL_MAGICS:
            self.use.unknown.add(name)
            self.words(line)
            self.words(body)
        elif name not in rules.DISPLAY_CELL_MAGICS:
            self.use.everything.append(f"%%{name} may read any name")
