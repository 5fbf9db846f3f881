"""What names, attributes, magics and modules mean for the inputs of a cell: tables and nothing else.

Read by the access analysis. Everything that is in no table is treated as code that can be analysed, magics excepted:
an unknown magic may read anything.
"""

from __future__ import annotations

import gc
import re
import sys
from collections.abc import Mapping
from typing import Final

__all__ = [
    "CODE_CELL_MAGICS",
    "CODE_LINE_MAGICS",
    "C_READERS",
    "DISPLAY_CELL_MAGICS",
    "EFFECT_CALLS",
    "ENVIRONMENT",
    "ENVIRONMENT_LOOKUPS",
    "EVERYTHING_ATTRIBUTES",
    "EVERYTHING_NAMES",
    "HARMLESS_LINE_MAGICS",
    "IDENTIFIER",
    "METADATA_METHODS",
    "METADATA_OF_OS",
    "METADATA_OF_PATHS",
    "MUTATORS",
    "PRESENCE",
    "PROCESS_STATE",
    "QUERY_CALLS",
    "SHELL_CELL_MAGICS",
    "SHELL_LINE_MAGICS",
    "SHELL_NAMES",
    "SWALLOWING_CONTEXTS",
    "UNSEEN_MODULES",
    "history_name",
    "is_process_state",
    "opens_everything",
    "sets_stream",
]

_BINDABLE: Final = frozenset({"_", "__", "___", "Out", "In"})
IDENTIFIER: Final = re.compile(r"[^\W\d]\w*")

# A call or a bare mention gives access to the whole namespace.
EVERYTHING_NAMES: Final = frozenset(
    {
        "eval", "exec", "globals", "get_ipython", "__builtins__", "breakpoint", "testmod", "testfile", "getmodule",
        "getmembers", "currentframe", "run_docstring_examples",
    }
)  # fmt: skip
EVERYTHING_ATTRIBUTES: Final = frozenset(
    {
        "__globals__", "f_globals", "f_locals", "f_back", "_getframe", "_current_frames", "currentframe", "user_ns",
        "user_global_ns", "get_objects", "get_referrers", "get_referents", "getmembers", "getmodule", "testmod",
        "testfile", "run_docstring_examples", "get_ipython", "run_cell", "run_cell_async", "run_code", "safe_execfile",
    }
)  # fmt: skip

# Their argument is text in which names of the namespace are looked up, or may be.
QUERY_CALLS: Final = frozenset(
    {
        "query", "eval", "sql", "execute", "executemany", "executescript", "read_sql", "read_sql_query", "sqldf",
        "from_query", "sql_query",
    }
)  # fmt: skip

SHELL_NAMES: Final = frozenset({"get_ipython", "exit", "quit", "open", "display"})

# Reads that no audit event of the interpreter shows: other programs, C and Rust libraries, the network.
UNSEEN_MODULES: Final = {
    **dict.fromkeys(("duckdb", "_duckdb"), "duckdb"),
    **{name: name for name in ("sqlite3", "sqlalchemy", "h5py", "netCDF4", "tables", "rasterio", "osgeo", "fiona")},
    **{
        name: f"network: {name}"
        for name in (
            "requests", "urllib", "urllib3", "httpx", "aiohttp", "http", "ftplib", "socket", "boto3", "botocore",
            "s3fs", "gcsfs", "adlfs", "paramiko", "smtplib", "psycopg", "psycopg2", "pymysql", "pymongo", "redis",
            "openai", "anthropic", "yfinance", "websockets", "grpc", "zmq",
        )
    },
    **{name: f"other program: {name}" for name in ("subprocess", "_posixsubprocess", "pexpect", "sh", "plumbum")},
}  # fmt: skip
C_READERS: Final = frozenset(
    {
        "read_parquet", "read_feather", "read_orc", "read_hdf", "read_sql", "read_sql_query", "read_sql_table",
        "read_gbq", "scan_parquet", "scan_csv", "scan_ndjson", "scan_ipc", "read_ipc", "open_dataset", "open_mfdataset",
        "imread", "VideoCapture", "load_dataset", "fetch_openml", "urlopen", "urlretrieve",
    }
)  # fmt: skip
OS_PROGRAMS: Final = frozenset({"system", "popen", "fork", "posix_spawn", "execv", "spawnv", "startfile"})

# What of `os` gives environment variables, and the methods that give one by its name.
ENVIRONMENT: Final = ("environ", "environb", "getenv", "getenvb")
ENVIRONMENT_LOOKUPS: Final = frozenset({"get", "pop", "setdefault", "__getitem__", "__contains__"})

# What asks about a file without opening it, which no audit event shows; of PRESENCE only whether it is there matters.
METADATA_OF_PATHS: Final = (
    "exists", "lexists", "isfile", "isdir", "islink", "ismount", "getsize", "getmtime", "getatime", "getctime",
    "realpath", "samefile",
)  # fmt: skip
METADATA_OF_OS: Final = ("stat", "lstat", "access", "readlink")
METADATA_METHODS: Final = frozenset(
    {"exists", "is_file", "is_dir", "stat", "lstat", "is_symlink", "is_mount", "samefile", "readlink"}
)
PRESENCE: Final = frozenset({"exists", "isfile", "isdir", "is_file", "is_dir"})

# Methods that change the object they are called on.
MUTATORS: Final = frozenset(
    {
        "append", "extend", "insert", "add", "update", "remove", "pop", "popitem", "clear", "discard", "setdefault",
        "sort", "reverse", "appendleft", "extendleft", "popleft", "__setitem__", "__delitem__", "register",
        "unregister", "subscribe", "addHandler", "removeHandler", "setLevel",
    }
)  # fmt: skip
# Functions of modules that leave something behind which no delta holds.
EFFECT_CALLS: Final = frozenset(
    {
        "atexit.register", "atexit.unregister", "codecs.register", "codecs.register_error", "copyreg.pickle",
        "signal.signal", "sys.settrace", "sys.setprofile", "sys.addaudithook", "faulthandler.enable",
        "socket.setdefaulttimeout", "locale.setlocale", "gc.disable", "gc.enable",
        "threading.settrace", "importlib.reload",
    }
)  # fmt: skip
# Changes of these are process state, which is versioned and restored like a variable.
PROCESS_STATE: Final = frozenset(
    {
        "sys.modules", "sys.path", "sys.argv", "os.environ", "os.environb", "matplotlib.rcParams", "pandas.options",
        "matplotlib.pyplot.rcParams", "decimal.getcontext()", "_decimal.getcontext()",
    }
)  # fmt: skip
SWALLOWING_CONTEXTS: Final = frozenset({"suppress", "raises", "ExitStack", "AsyncExitStack", "assertRaises", "warns"})

CODE_CELL_MAGICS: Final = frozenset({"time", "timeit", "capture", "prun", "memit", "mprun", "lprun", "pyinstrument"})
CODE_LINE_MAGICS: Final = frozenset({"time", "timeit", "prun", "memit", "lprun", "mprun"})
DISPLAY_CELL_MAGICS: Final = frozenset(
    {"html", "HTML", "javascript", "js", "latex", "markdown", "svg", "SVG", "writefile", "file"}
)
SHELL_CELL_MAGICS: Final = frozenset(
    {"bash", "sh", "script", "!", "sx", "system", "perl", "ruby", "python", "python2", "python3", "pypy", "cmd"}
)
SHELL_LINE_MAGICS: Final = frozenset(
    {
        "sx", "system", "sc", "ls", "ll", "la", "lf", "lk", "ldir", "lx", "cat", "cp", "mv", "rm", "mkdir", "rmdir",
        "less", "more", "man", "bash",
    }
)  # fmt: skip
HARMLESS_LINE_MAGICS: Final = frozenset(
    {
        "matplotlib", "load_ext", "reload_ext", "unload_ext", "autoreload", "aimport", "config", "pip", "conda",
        "mamba", "micromamba", "uv", "cd", "pwd", "pushd", "popd", "dhist", "dirs", "env", "set_env", "alias",
        "unalias", "lsmagic", "magic", "quickref", "pprint", "gui", "precision", "xmode", "colors", "pdb", "pinfo",
        "pinfo2", "psource", "pdoc", "pdef", "pfile", "doctest_mode", "automagic", "autocall", "autoawait",
        "alias_magic", "connect_info", "clear", "cls", "watermark", "durable", "durable_sql", "subshell", "page",
        "unsafe_autosave", "autosave", "killbgscripts", "rehashx", "bookmark", "code_wrap", "autoindent",
    }
)  # fmt: skip
SQL_MAGICS: Final = frozenset({"sql", "sqlcmd", "sqlplot", "duckdb", "durable_sql", "bigquery"})


_OPENERS: Final = (
    eval, exec, globals, locals, vars, __import__, gc.get_objects, gc.get_referrers, gc.get_referents, sys._getframe,
    sys._current_frames,
)  # fmt: skip


def opens_everything(value: object) -> bool:
    """Tell whether a built-in function, by whatever name it is called, may give any variable."""
    return any(value is opener for opener in _OPENERS)


def is_process_state(dotted: str) -> bool:
    """Tell whether `module.attribute…` lies in process state that is restored like a variable."""
    return any(dotted == state or dotted.startswith((state + ".", state + "[")) for state in PROCESS_STATE)


def sets_stream(name: str) -> bool:
    """Tell whether a function of that name may set a random stream, whatever state the stream is in before."""
    return "seed" in name.lower() or name in ("setstate", "set_state", "set_rng_state", "bit_generator")


def _is_own(name: str, namespace: Mapping[str, object]) -> bool:
    value, held = namespace[name], namespace.get("_ih" if name == "In" else "_oh")
    if held is None or name in ("In", "Out"):
        return held is not None and value is not held
    results = held.values() if isinstance(held, dict) else ()
    return not (type(value) is str and not value) and not any(value is one for one in results)


def history_name(name: str, namespace: Mapping[str, object]) -> str | None:
    """Return the pseudo-name that stands for IPython's names of earlier outputs and inputs, None for other names.

    Those that a person has bound to a value of his own are names like all others.
    """
    if name in _BINDABLE and name in namespace and _is_own(name, namespace):
        return None
    if name in ("_", "__", "___", "Out", "_oh"):
        return "Out[*]"
    if name in ("In", "_ih", "_i", "_ii", "_iii"):
        return "In[*]"
    if name.startswith("_"):
        if name[1:].isdecimal():
            return f"Out[{int(name[1:])}]"
        if name.startswith("_i") and name[2:].isdecimal():
            return f"In[{int(name[2:])}]"
    return None
