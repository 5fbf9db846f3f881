"""Cells that only look at tables and arrays: nothing they do can change what a variable holds.

Called by `access.analyse`. It is a list of what is known not to write, not a guess about what might: one statement,
function or method that is not on it, and the cell is like any other. What such a cell makes may still share memory with
what it looks at.
"""

from __future__ import annotations

import ast
import builtins
import sys
from collections.abc import Mapping
from types import ModuleType
from typing import Any, Final

__all__ = ["only_reads"]

_OWNERS: Final = ("pandas", "numpy")
_SCALARS: Final = frozenset({int, float, complex, bool, str, bytes, type(None), range, slice})
_BUILTINS: Final = frozenset(
    {
        "abs", "all", "any", "bool", "complex", "dict", "divmod", "enumerate", "float", "format", "frozenset", "hash",
        "hex", "id", "int", "isinstance", "issubclass", "len", "list", "max", "min", "oct", "ord", "pow", "print",
        "range", "repr", "reversed", "round", "set", "slice", "sorted", "str", "sum", "tuple", "type", "zip",
        "True", "False", "None", "display",
    }
)  # fmt: skip
# Functions of pandas and numpy that read their arguments and make something new (or a view).
_FUNCTIONS: Final = frozenset(
    {
        "DataFrame", "Series", "Index", "Timedelta", "Timestamp", "abs", "all", "allclose", "amax", "amin",
        "any", "arange", "argmax", "argmin", "argsort", "array", "array_equal", "asarray", "average", "bincount",
        "ceil", "clip", "column_stack", "concat", "concatenate", "corrcoef", "cos", "count_nonzero", "cov", "crosstab",
        "cumprod", "cumsum", "cut", "date_range", "diff", "dot", "exp", "eye", "flatnonzero", "floor", "full",
        "histogram", "hstack", "isfinite", "isin", "isna", "isnan", "isnull", "linspace", "log", "log10", "log1p",
        "log2", "max", "maximum", "mean", "median", "melt", "merge", "min", "minimum", "nanmax", "nanmean",
        "nanmedian", "nanmin", "nanstd", "nansum", "nonzero", "notna", "notnull", "ones", "percentile", "pivot_table",
        "power", "prod", "qcut", "quantile", "round", "searchsorted", "sign", "sin", "sort", "sqrt", "square", "stack",
        "std", "sum", "tan", "tanh", "timedelta_range", "to_datetime", "to_numeric", "to_timedelta", "unique", "var",
        "vstack", "where", "zeros",
    }
)  # fmt: skip
# Their methods and properties, of what these give, and of texts; none writes without `out` or `inplace`.
_ATTRIBUTES: Final = frozenset(
    {
        "T", "abs", "add", "agg", "aggregate", "all", "any", "argmax", "argmin", "argsort", "array", "asfreq",
        "assign", "astype", "at", "attrs", "axes", "between", "bfill", "bool", "capitalize", "cat", "categories",
        "ceil", "clip", "codes", "columns", "contains", "copy", "corr", "corrwith", "count", "cov", "cummax", "cummin",
        "cumprod", "cumsum", "date", "day", "day_name", "dayofweek", "dayofyear", "days", "describe", "diff", "div",
        "dot", "drop", "drop_duplicates", "droplevel", "dropna", "dt", "dtype", "dtypes", "duplicated", "empty",
        "endswith", "eq", "ewm", "expanding", "explode", "extract", "ffill", "fillna", "filter", "find", "first",
        "flags", "flat", "flatten", "floor", "format", "ge", "get_group", "groupby", "groups", "gt", "head", "hour",
        "iat", "idxmax", "idxmin", "iloc", "imag", "index", "info", "interpolate", "isin", "isna", "isnull", "items",
        "iterrows", "itertuples", "itemsize", "join", "keys", "kurt", "kurtosis", "last", "le", "len", "loc", "lower",
        "lstrip", "lt", "mask", "max", "mean", "median", "melt", "memory_usage", "merge", "microsecond", "min",
        "minute", "mod", "mode", "month", "month_name", "mul", "name", "names", "nbytes", "ndim", "ne", "ngroup",
        "ngroups", "nlargest", "normalize", "notna", "notnull", "nsmallest", "nunique", "pct_change", "pivot",
        "pivot_table", "pow", "prod", "product", "quantile", "quarter", "rank", "ravel", "real", "reindex", "rename",
        "rename_axis", "reorder_levels", "repeat", "replace", "resample", "reset_index", "reshape", "rfind", "rolling",
        "round", "rstrip", "sample", "second", "select_dtypes", "sem", "set_axis", "set_index", "shape", "shift",
        "size", "skew", "slice", "sort_index", "sort_values", "split", "squeeze", "stack", "startswith", "std",
        "str", "strftime", "strides", "strip", "style", "sub", "sum", "swapaxes", "swaplevel", "tail", "take", "title",
        "to_dict", "to_frame", "to_list", "to_markdown", "to_numpy", "to_period", "to_records", "to_series",
        "to_string", "to_timestamp", "tolist", "total_seconds", "trace", "transpose", "truediv", "truncate",
        "tz_convert", "tz_localize", "unique", "unstack", "upper", "value_counts", "values", "var", "weekday", "where",
        "xs", "year", "zfill",
    }
)  # fmt: skip
# How many of their arguments may be arrays; of most functions and methods the next one could be where to write.
_ARRAYS_TAKEN: Final = {
    **dict.fromkeys(
        ("allclose", "array_equal", "corrcoef", "cov", "crosstab", "dot", "isin", "maximum", "merge", "minimum",
         "power", "searchsorted"), 2,
    ),
    "where": 3,
}  # fmt: skip
# No other word is taken for an option: one may say where to write.
_OPTIONS: Final = frozenset(
    {
        "aggfunc", "alpha", "ascending", "as_index", "axis", "bins", "case", "center", "columns", "com", "ddof",
        "decimals", "density", "dropna", "dtype", "errors", "exclude", "expand", "fill_value", "format", "frac", "freq",
        "group_keys", "how", "id_vars", "ignore_index", "include", "index", "keep", "keepdims", "key", "keys", "labels",
        "left_index", "left_on", "level", "levels", "limit", "margins", "method", "min_periods", "n", "na", "name",
        "names", "normalize", "numeric_only", "observed", "on", "order", "pat", "percentiles", "periods", "q",
        "random_state", "range", "regex", "replace", "reverse", "right", "right_index", "right_on", "sep", "shape",
        "skipna", "sort", "span", "start", "step", "stop", "subset", "suffixes", "unit", "utc", "value", "value_name",
        "value_vars", "values", "var_name", "weights", "window", "end",
    }
)  # fmt: skip
_NAMED: Final = frozenset({"assign", "agg", "aggregate"})  # their options are names of columns
_STATEMENTS: Final = (ast.Expr, ast.Assign, ast.AnnAssign, ast.Pass, ast.For, ast.If)
_EXPRESSIONS: Final = (
    ast.Name, ast.Constant, ast.Attribute, ast.Subscript, ast.Call, ast.BinOp, ast.UnaryOp, ast.BoolOp, ast.Compare,
    ast.IfExp, ast.List, ast.Tuple, ast.Set, ast.Dict, ast.Slice, ast.Starred, ast.JoinedStr, ast.FormattedValue,
    ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp, ast.comprehension, ast.keyword, ast.expr_context,
    ast.operator, ast.unaryop, ast.boolop, ast.cmpop,
)  # fmt: skip


def only_reads(tree: ast.Module, namespace: Mapping[str, object]) -> frozenset[str]:
    """Return the names of tables, arrays and plain values that a cell looks at, if it does nothing else; else none."""
    if not all(isinstance(node, (ast.Module, *_STATEMENTS, *_EXPRESSIONS)) for node in ast.walk(tree)):
        return frozenset()
    bound = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    read: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.id not in bound:
            if not _is_readable(node.id, namespace):
                return frozenset()
            read.add(node.id)
        elif not _looks(node, namespace, bound):
            return frozenset()
    return frozenset(n for n in read if n in namespace and _as_module(namespace[n]) is None)


def _looks(node: ast.AST, namespace: Mapping[str, object], bound: set[str]) -> bool:
    """Does an expression by itself change nothing?"""
    if isinstance(node, ast.Attribute):
        return isinstance(node.ctx, ast.Load) and _is_known(node, namespace, bound)
    if isinstance(node, ast.Subscript):
        return isinstance(node.ctx, ast.Load)
    return not isinstance(node, ast.Call) or _is_harmless(node, namespace, bound)


def _as_module(value: object) -> ModuleType | None:
    # Not `isinstance`, which asks the object for its class.
    module: Any = value if issubclass(type(value), ModuleType) else None
    return module  # type: ignore[no-any-return]


def _library(value: object) -> str:
    if (module := _as_module(value)) is not None:
        return str(module.__name__).partition(".")[0]
    return str(type(value).__module__).partition(".")[0]


def _is_scalar(value: object) -> bool:
    kind = type(value)  # which may have no hash
    return any(kind is scalar for scalar in _SCALARS)


def _is_readable(name: str, namespace: Mapping[str, object]) -> bool:
    if name not in namespace:
        found = vars(builtins).get(name)
        owner = getattr(found, "__module__", None) or type(found).__module__
        return name in _BUILTINS and str(owner).partition(".")[0] in ("builtins", "IPython", "_io")
    value = namespace[name]
    if _is_scalar(value):
        return True
    if type(value) is list or type(value) is tuple:
        return len(value) < 100 and all(map(_is_scalar, value))
    if name in _BUILTINS and value is getattr(builtins, name, None):
        return True
    return name != "display" and _library(value) in _OWNERS


def _is_known(node: ast.Attribute, namespace: Mapping[str, object], bound: set[str]) -> bool:
    """Is an attribute one of a table's or array's, or a function of their libraries, that does not write?"""
    root = node.value
    if isinstance(root, ast.Name) and root.id not in bound:
        value = namespace.get(root.id)
        if (module := _as_module(value)) is not None:
            return _is_theirs(module, node.attr)
    return node.attr in _ATTRIBUTES or _is_column(node.attr, namespace)


def _is_theirs(module: ModuleType, word: str) -> bool:
    """Is a word a function of a library that does not write, and still the library's own, or one of its constants?"""
    if word in ("nan", "inf", "pi", "newaxis", "NA", "NaT"):
        return _library(module) in _OWNERS
    found: Any = vars(module).get(word)
    owner = getattr(found, "__module__", None) or type(found).__module__
    return word in _FUNCTIONS and _library(module) in _OWNERS and str(owner).partition(".")[0] in _OWNERS


def _is_column(word: str, namespace: Mapping[str, object]) -> bool:
    """Is a word the name of a column of some table, and nothing else to pandas?"""
    pandas = sys.modules.get("pandas")
    if pandas is None or any(hasattr(cls, word) for cls in (pandas.DataFrame, pandas.Series, pandas.Index)):
        return False
    tables: list[Any] = [value for value in namespace.values() if type(value) is pandas.DataFrame]
    return any(word in table.columns for table in tables)


def _arrays_taken(function: ast.Attribute) -> int:
    return _ARRAYS_TAKEN.get(function.attr, 1) if isinstance(function.value, ast.Name) else 1


def _names_looks(call: ast.Call) -> bool:
    """Are all texts in a call names of methods that look, or of columns that are no methods?"""
    texts = [n.value for n in ast.walk(call) if isinstance(n, ast.Constant) and type(n.value) is str]
    pandas = sys.modules.get("pandas")
    return all(t in _ATTRIBUTES or not hasattr(getattr(pandas, "DataFrame", None), t) for t in texts)


def _is_constant(node: ast.AST) -> bool:
    """Is an argument written out in the cell, and so nothing that could be written to?"""
    if isinstance(node, (ast.List, ast.Tuple)):
        return all(map(_is_constant, node.elts))
    return isinstance(node, ast.Constant) or (isinstance(node, ast.UnaryOp) and _is_constant(node.operand))


def _is_harmless(node: ast.Call, namespace: Mapping[str, object], bound: set[str]) -> bool:
    function = node.func.attr if isinstance(node.func, ast.Attribute) else ""
    if any(k.arg is None or (k.arg not in _OPTIONS and function not in _NAMED) for k in node.keywords):
        return False
    if function in ("agg", "aggregate") and not (len(node.args) < 2 and _names_looks(node)):
        return False
    if isinstance(node.func, ast.Attribute):
        more = node.args[_arrays_taken(node.func) :]
        # Of a function of a module one more argument says how; the next might say that it may write.
        of_module = isinstance(node.func.value, ast.Name) and _as_module(namespace.get(node.func.value.id)) is not None
        if not all(map(_is_constant, more)) or (of_module and len(more) > 1 and not all(map(_is_constant, node.args))):
            return False
    if isinstance(node.func, ast.Name):
        return node.func.id in _BUILTINS and node.func.id not in bound and node.func.id not in namespace
    return isinstance(node.func, ast.Attribute) and _is_known(node.func, namespace, bound)
