"""What a cell reads, binds and touches, found without running it (reuse.md, rules 4 to 6).

Called by the engine before a cell runs and when it decides whether to skip it; pure: nothing is executed, imported
or changed. When something cannot be known the answer is «everything», with the reason.
"""

from __future__ import annotations

import ast
import functools
import hashlib
import io
import tokenize
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from durable_nb.capture import runtime_modules
from durable_nb.capture.access_modules import module_digest, reads_notebook, with_imports
from durable_nb.capture.access_outside import OutsideCell
from durable_nb.capture.access_pure import only_reads
from durable_nb.capture.access_reach import TOO_LONG, TOO_MANY, Reach
from durable_nb.capture.access_rules import history_name

__all__ = ["Access", "analyse", "code_hash", "module_digest"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """The inputs and effects of one cell.

    `reads` holds every name whose value may matter, also a name that the namespace does not have (it may be absent on
    purpose, see `handles_absence`). `Out[3]`, `Out[*]` and `In[*]` stand for IPython's history. `binds` holds the names
    that a cell which runs to its end has certainly bound or deleted, `stores` also those that it may have, itself or in
    a function that it can reach. `seeds`: it may set a random stream. `environ`: the environment variables that it may
    read; `*` stands for all. `may_change`: the names whose values it may change, as far as it leads to them itself;
    None: any; `only_read`: those of them whose values it certainly leaves as they are. `present`: the paths, as
    written, of which it asks whether a file or folder is there.
    """

    reads: frozenset[str]
    stores: frozenset[str]
    binds: frozenset[str]
    everything: bool
    why_everything: str
    handles_absence: bool
    modules: tuple[str, ...]
    unknown_inputs: tuple[str, ...]
    outside_effects: tuple[str, ...]
    seeds: bool = False
    may_change: frozenset[str] | None = None
    only_read: frozenset[str] = frozenset()
    environ: frozenset[str] = frozenset()
    present: frozenset[str] = frozenset()


def analyse(tree: ast.Module, source: str, namespace: Mapping[str, object], *, raw_source: str = "") -> Access:
    """Return what a cell may read, bind and touch, given the tree of its transformed source and the namespace.

    Reasons quote `source`, and `raw_source` (what the person typed) where there is no transformed text. Modules that
    the cell itself imports for the first time are known better when it is analysed again after it ran.
    """
    cell = OutsideCell(namespace, tree, source or raw_source)
    cell.run(tree.body)
    Reach(namespace).follow(cell.use, cell.reached)
    use = cell.use
    modules = with_imports(use.modules) if use.modules else ()
    use.everything += reads_notebook(modules)
    why = use.everything[0] if use.everything else ""
    reads = frozenset(history_name(n, namespace) or n for n in use.loads | use.text) | runtime_modules.reads(
        use.modules
    )
    known = all(reason in (TOO_MANY, TOO_LONG) for reason in use.everything)
    return Access(
        reads=reads,
        may_change=reads.union(cell.stores, use.writes) if known else None,
        only_read=only_reads(tree, namespace) - cell.stores,
        stores=frozenset(cell.stores | use.writes),
        binds=frozenset(cell.known & cell.stores),
        everything=bool(why),
        why_everything=why,
        handles_absence=use.absence,
        modules=modules,
        unknown_inputs=tuple(sorted(use.unknown)),
        outside_effects=tuple(dict.fromkeys(use.effects)),
        seeds=use.seeds,
        environ=frozenset(use.environ),
        present=frozenset(use.present),
    )


def _canonical(tree: ast.AST) -> Iterator[str]:
    """Yield a form of a tree that has no positions, no empty fields and no depth limit."""
    todo: list[object] = [tree]
    while todo:
        item = todo.pop()
        if isinstance(item, ast.AST):
            yield f" ({type(item).__name__}"
            todo.append(")")
            for name in reversed(item._fields):
                value = getattr(item, name, None)
                # `kind` is only the prefix of u"…"; empty fields come and go between versions of Python.
                if value is not None and value != [] and name not in ("kind", "type_comment", "ctx", "type_ignores"):
                    is_constant = isinstance(item, ast.Constant)
                    todo.append(f"={type(value).__name__}:{value!r}" if is_constant else value)
                    todo.append(f" {name}")
        elif isinstance(item, list):
            yield "["
            todo.append("]")
            todo.extend(reversed(item))
        else:
            # The blank keeps `global a, b` apart from `global ab`.
            yield f" {item}" if isinstance(item, str) else repr(item)


def _is_quiet(source: str) -> bool:
    """Tell whether the cell ends in `;`, which keeps IPython from showing its last value."""
    if ";" not in source.rstrip().rpartition("\n")[2]:
        return False
    last = ""
    try:
        for token in tokenize.generate_tokens(io.StringIO(source).readline):
            if token.type not in (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.ENDMARKER, tokenize.DEDENT):
                last = token.string
    except (tokenize.TokenError, SyntaxError):
        return False
    return last == ";"


@functools.lru_cache(maxsize=128)
def code_hash(source: str) -> str:
    """Return a hash of a cell's code that comments, blank lines and formatting do not change.

    `source` is the cell as IPython has transformed it. A trailing `;` counts: it changes what the cell shows.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return hashlib.sha256(b"text\0" + source.encode("utf-8", "surrogatepass")).hexdigest()
    text = "".join(_canonical(tree)) + (";" if _is_quiet(source) else "")
    return hashlib.sha256(b"tree\0" + text.encode("utf-8", "surrogatepass")).hexdigest()
