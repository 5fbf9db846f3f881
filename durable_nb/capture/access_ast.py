"""Walk a cell's syntax tree in the order of evaluation and note which names it may read, bind, or need as absent.

Called by `access.analyse` only. A name that the cell has certainly bound before a load is no input; the body of a
function that the cell defines counts when something later in the cell could call it. Nothing is executed.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from durable_nb.capture.access_rules import (
    EVERYTHING_NAMES,
    IDENTIFIER,
    SHELL_NAMES,
    SWALLOWING_CONTEXTS,
    history_name,
    sets_stream,
)

__all__ = ["Flow", "Use"]

_BUILTINS = frozenset(vars(builtins))
_ABSENCE_ERRORS = frozenset({"NameError", "UnboundLocalError", "Exception", "BaseException"})
_NAMESPACE_CALLS = frozenset({"globals", "locals", "vars", "dir"})
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


@dataclass(slots=True, kw_only=True)
class Use:
    """What one stretch of code does; that of a function is added to the cell's when the function may be called."""

    loads: set[str] = field(default_factory=set)
    text: set[str] = field(default_factory=set)
    everything: list[str] = field(default_factory=list)
    absence: bool = False
    modules: set[str] = field(default_factory=set)
    unknown: set[str] = field(default_factory=set)
    effects: list[str] = field(default_factory=list)
    writes: set[str] = field(default_factory=set)  # globals bound by functions that can be reached
    seeds: bool = False
    environ: set[str] = field(default_factory=set)  # environment variables that are read
    present: set[str] = field(default_factory=set)  # paths of which it matters whether something is there

    def add(self, other: Use, known: set[str]) -> None:
        """Take over what `other` does, except reads of names that were certainly bound by then."""
        self.loads |= other.loads - known
        self.text |= other.text - known
        self.everything += other.everything
        self.absence |= other.absence
        self.modules |= other.modules
        self.unknown |= other.unknown
        self.effects += other.effects
        self.writes |= other.writes
        self.seeds |= other.seeds
        self.environ |= other.environ
        self.present |= other.present


@dataclass(slots=True)
class _Scope:
    names: set[str]
    is_class: bool = False
    is_comprehension: bool = False
    shared: set[str] = field(default_factory=set)  # declared `global`


_OWN_SCOPE = (*_FUNCTIONS, ast.ClassDef)


def _same_scope(body: Iterable[ast.AST]) -> Iterator[ast.AST]:
    todo = list(body)
    while todo:
        node = todo.pop()
        yield node
        if isinstance(node, _OWN_SCOPE):
            continue
        if isinstance(node, _COMPREHENSIONS):
            # Targets are the comprehension's own; only a walrus binds outside of it.
            todo.extend(n for n in ast.walk(node) if isinstance(n, ast.NamedExpr))
            continue
        todo.extend(ast.iter_child_nodes(node))


_BINDERS = (
    *(ast.Name, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Import, ast.ImportFrom, ast.ExceptHandler),
    *(ast.MatchAs, ast.MatchStar, ast.MatchMapping),
)


def _bound(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
        yield node.id
    elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        yield node.name
    elif isinstance(node, (ast.Import, ast.ImportFrom)):
        yield from (a.asname or a.name.partition(".")[0] for a in node.names)
    elif isinstance(node, (ast.ExceptHandler, ast.MatchAs, ast.MatchStar)):
        if node.name:
            yield node.name
    elif isinstance(node, ast.MatchMapping) and node.rest:
        yield node.rest


def _function_scope(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) -> _Scope:
    args = node.args
    every = [*args.posonlyargs, *args.args, *args.kwonlyargs, *(a for a in (args.vararg, args.kwarg) if a)]
    names, shared, outer = {a.arg for a in every}, set[str](), set[str]()
    body: Sequence[ast.AST] = [node.body] if isinstance(node, ast.Lambda) else node.body
    for inner in _same_scope(body):
        if isinstance(inner, _BINDERS):
            names.update(_bound(inner))
        if isinstance(inner, ast.Global):
            shared.update(inner.names)
        elif isinstance(inner, ast.Nonlocal):
            outer.update(inner.names)
    return _Scope(names - shared - outer, shared=shared)


class Flow(ast.NodeVisitor):
    """The names of one cell in the order of evaluation; subclasses add what calls and attributes mean."""

    def __init__(self, namespace: Mapping[str, object]) -> None:
        self.namespace = namespace
        self.use = Use()
        self.stores: set[str] = set()
        self.known: set[str] = set()
        self.imported: dict[str, tuple[str, str]] = {}
        self._scopes: list[_Scope] = []
        self._pending: list[Use] = []

    # -- names ---------------------------------------------------------------------------------------------------

    def run(self, body: Sequence[ast.stmt]) -> None:
        """Visit the statements of a cell's top level."""
        for statement in body:
            before = set(self.known)
            plain = self._only_defines(statement)
            if not plain:
                self._flush(before)
            self.visit(statement)
            if not plain:
                # A recursive function or a class that names itself means itself, not what had the name before.
                own = {statement.name} if isinstance(statement, _DEFINITIONS) else set()
                self._flush(before | own)

    def _only_defines(self, node: ast.stmt) -> bool:
        """Tell whether a statement cannot call a function that the cell has defined."""
        if isinstance(node, (ast.Import, ast.ImportFrom, ast.Pass)):
            return True
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            return not node.decorator_list
        if isinstance(node, ast.ClassDef):
            return not (node.decorator_list or node.bases or node.keywords)
        if isinstance(node, ast.Assign) and all(isinstance(t, ast.Name) for t in node.targets):
            return isinstance(node.value, (ast.Constant, ast.Lambda))
        return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)

    def _flush(self, known: set[str]) -> None:
        for use in self._pending:
            self.use.add(use, known)
        self._pending.clear()

    def is_local(self, name: str) -> bool:
        """Tell whether a load of `name` here finds a variable of an enclosing function or class body."""
        for position, scope in enumerate(reversed(self._scopes)):
            if scope.is_class and position:
                continue
            if name in scope.shared:
                return False
            if name in scope.names:
                return True
        return False

    @property
    def in_function(self) -> bool:
        return any(not s.is_class and not s.is_comprehension for s in self._scopes)

    def load(self, name: str) -> None:
        """Note a load that reaches the namespace (or the builtins)."""
        if self.is_local(name) or (not self.in_function and name in self.known):
            return
        if name in EVERYTHING_NAMES and (name in SHELL_NAMES or name not in self.namespace):
            self.use.everything.append(f"{name} may read any name")
            return
        if name in _BUILTINS and (name not in self.namespace or name in SHELL_NAMES):
            return
        if name.startswith("__") and name.endswith("__"):
            return
        self.use.loads.add(name)

    def store(self, name: str) -> None:
        """Note that `name` is bound or deleted here."""
        scope = next((s for s in reversed(self._scopes) if not s.is_comprehension), None)
        if scope is None:
            self.stores.add(name)
            if not self._scopes:
                self.known.add(name)
        elif name in scope.shared:
            self.stores.add(name)

    def words(self, text: str) -> None:
        """Note the identifiers in a string that are names of the namespace."""
        for word in set(IDENTIFIER.findall(text)):
            if word not in self.namespace or word in SHELL_NAMES or (word.startswith("__") and word.endswith("__")):
                continue
            if history_name(word, self.namespace) in ("Out[*]", "In[*]") or (
                not self.in_function and word in self.known
            ):
                # Prose is full of «In» and «Out»; the numbered names are taken seriously.
                continue
            self.use.text.add(word)

    def visit_Name(self, node: ast.Name) -> None:
        if isinstance(node.ctx, ast.Load):
            self.use.seeds |= sets_stream(node.id)
            self.load(node.id)
        elif not any(s.is_comprehension and node.id in s.names for s in self._scopes):
            self.store(node.id)

    def visit_Constant(self, node: ast.Constant) -> None:
        if isinstance(node.value, str):
            self.words(node.value)

    def visit_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            self.use.modules.add(alias.name)
            name = alias.asname or alias.name.partition(".")[0]
            self.imported[name] = (alias.name if alias.asname else name, "")
            self.store(name)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        module = node.module or ""
        self.use.modules.add(module)
        for alias in node.names:
            if alias.name == "*":
                for name in self.star_names(module):
                    self.store(name)
                continue
            self.use.modules.add(f"{module}.{alias.name}")
            self.imported[alias.asname or alias.name] = (module, alias.name)
            self.store(alias.asname or alias.name)

    def star_names(self, module: str) -> Iterable[str]:
        """Return what `from module import *` binds, as far as that is known before it runs."""
        raise NotImplementedError

    # -- statements ----------------------------------------------------------------------------------------------

    def _all(self, nodes: Iterable[ast.AST | None]) -> None:
        for node in nodes:
            if node is not None:
                self.visit(node)

    def _branch(self, nodes: Iterable[ast.AST | None], start: set[str]) -> set[str]:
        self.known = set(start)
        self._all(nodes)
        return self.known

    def visit_Assign(self, node: ast.Assign) -> None:
        self.visit(node.value)
        self._all(node.targets)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        if isinstance(node.target, ast.Name):
            self.load(node.target.id)
        self.visit(node.value)
        self.visit(node.target)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        self.visit(node.annotation)
        if node.value is not None:
            self.visit(node.value)
            self.visit(node.target)
        elif not isinstance(node.target, ast.Name):
            self.visit(node.target)

    def visit_NamedExpr(self, node: ast.NamedExpr) -> None:
        self.visit(node.value)
        self.store(node.target.id)

    def visit_If(self, node: ast.If) -> None:
        self.visit(node.test)
        start = set(self.known)
        self.known = self._branch(node.body, start) & self._branch(node.orelse, start)

    def visit_IfExp(self, node: ast.IfExp) -> None:
        self.visit(node.test)
        start = set(self.known)
        self.known = self._branch([node.body], start) & self._branch([node.orelse], start)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        self.visit(node.values[0])
        start = set(self.known)
        self._branch(node.values[1:], start)
        self.known = start

    def visit_For(self, node: ast.For | ast.AsyncFor) -> None:
        self.visit(node.iter)
        start = set(self.known)
        self._branch([node.target, *node.body], start)
        self._branch(node.orelse, start)
        self.known = start

    visit_AsyncFor = visit_For  # noqa: N815

    def visit_While(self, node: ast.While) -> None:
        self.visit(node.test)
        start = set(self.known)
        self._branch(node.body, start)
        self._branch(node.orelse, start)
        self.known = start

    def visit_With(self, node: ast.With | ast.AsyncWith) -> None:
        self._all(node.items)
        start = set(self.known)
        self._all(node.body)
        if not all(self._passes_errors_on(item.context_expr) for item in node.items):
            self.known = start

    visit_AsyncWith = visit_With  # noqa: N815

    def _passes_errors_on(self, node: ast.expr) -> bool:
        """Tell whether a context manager is known not to swallow an error, so that its body ran to the end."""
        called = node.func if isinstance(node, ast.Call) else node
        last = called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")
        if last == "open":
            return True
        while isinstance(called, ast.Attribute):
            called = called.value
        root = called.id if isinstance(called, ast.Name) else ""
        return last not in SWALLOWING_CONTEXTS and self.is_installed(root)

    def is_installed(self, name: str) -> bool:
        """Tell whether a name stands for something of the standard library or an installed package."""
        raise NotImplementedError

    def visit_Try(self, node: ast.Try | ast.TryStar) -> None:
        start = set(self.known)
        ends = [self._branch([*node.body, *node.orelse], start)]
        for handler in node.handlers:
            self.known = set(start)
            self._handler(handler)
            if not (handler.body and isinstance(handler.body[-1], ast.Raise)):
                ends.append(self.known)
        after = set.intersection(*ends)
        self.known = self._branch(node.finalbody, start) | after

    visit_TryStar = visit_Try  # noqa: N815

    def _handler(self, node: ast.ExceptHandler) -> None:
        names = {getattr(n, "id", "") for n in ast.walk(node.type)} if node.type else _ABSENCE_ERRORS
        if names & _ABSENCE_ERRORS:
            self.use.absence = True
        if node.type is not None:
            self.visit(node.type)
        if node.name:
            self.store(node.name)
        self._all(node.body)

    def visit_Match(self, node: ast.Match) -> None:
        self.visit(node.subject)
        start = set(self.known)
        for case in node.cases:
            self._branch([case.pattern, case.guard, *case.body], start)
        self.known = start

    def visit_MatchAs(self, node: ast.MatchAs | ast.MatchStar | ast.MatchMapping) -> None:
        self.generic_visit(node)
        for name in _bound(node):
            self.store(name)

    visit_MatchStar = visit_MatchAs  # noqa: N815
    visit_MatchMapping = visit_MatchAs  # noqa: N815

    def visit_Compare(self, node: ast.Compare) -> None:
        left, right = node.left, node.comparators[0]
        asks = isinstance(right, ast.Call) and isinstance(right.func, ast.Name) and right.func.id in _NAMESPACE_CALLS
        if asks and isinstance(left, ast.Constant) and isinstance(left.value, str) and len(node.ops) == 1:
            # `'x' in globals()` reads one name, but whether it is there at all.
            self.load(left.value)
            self.use.absence = True
            return
        self.generic_visit(node)

    # -- scopes --------------------------------------------------------------------------------------------------

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) -> None:
        if not isinstance(node, ast.Lambda):
            every = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs, node.args.vararg, node.args.kwarg]
            self._all([*node.decorator_list, *(a.annotation for a in every if a), node.returns])
        self._all([*node.args.defaults, *node.args.kw_defaults])
        nested, outer = self.in_function, self.use
        if not nested:
            self.use = Use()
            self._pending.append(self.use)
        self._scopes.append(_function_scope(node))
        self._all([node.body] if isinstance(node, ast.Lambda) else node.body)
        self._scopes.pop()
        self.use = outer
        if not isinstance(node, ast.Lambda):
            self.store(node.name)

    visit_AsyncFunctionDef = visit_FunctionDef  # noqa: N815
    visit_Lambda = visit_FunctionDef  # noqa: N815

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self._all([*node.decorator_list, *node.bases, *(k.value for k in node.keywords)])
        scope = _Scope(set(), is_class=True)
        self._scopes.append(scope)
        for statement in node.body:
            self.visit(statement)
            if isinstance(
                statement, (ast.Assign, ast.AnnAssign, ast.FunctionDef, ast.ClassDef, ast.Import, ast.ImportFrom)
            ):
                for inner in _same_scope([statement]):
                    scope.names.update(_bound(inner))
        self._scopes.pop()
        self.store(node.name)

    def _comprehension(self, node: ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp) -> None:
        start = set(self.known)
        self.visit(node.generators[0].iter)
        names = {
            n.id
            for g in node.generators
            for n in ast.walk(g.target)
            if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)
        }
        self._scopes.append(_Scope(names, is_comprehension=True))
        for position, generator in enumerate(node.generators):
            self._all([generator.iter if position else None, generator.target, *generator.ifs])
        self._all([node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt])
        self._scopes.pop()
        self.known = start

    visit_ListComp = _comprehension  # noqa: N815
    visit_SetComp = _comprehension  # noqa: N815
    visit_DictComp = _comprehension  # noqa: N815
    visit_GeneratorExp = _comprehension  # noqa: N815
