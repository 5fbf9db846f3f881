"""Values of psutil."""

from __future__ import annotations

from durable_nb.testing.zoo import Value

LIBRARY = "psutil"
SETUP = "import os\n\nimport psutil"
VALUES = [
    Value(
        cls="psutil.Process",
        make="psutil.Process()",
        check="x.pid == os.getpid() and x.memory_info().rss > 0",
        keeps="exact",
        note="of the kernel itself: that of the new kernel",
    ),
    Value(
        cls="psutil.Process",
        make="psutil.Process(os.getppid())",
        check="x.pid == os.getppid() and x.is_running()",
        keeps="exact",
        note="of another process, which may have ended",
    ),
    Value(
        cls="psutil._ntuples.svmem",
        make="psutil.virtual_memory()",
        check="x.total > 0 and x._fields[0] == 'total'",
        keeps="exact",
    ),
    Value(
        cls="psutil.NoSuchProcess",
        make="psutil.NoSuchProcess(3, name='n')",
        check="x.pid == 3 and x.name == 'n'",
        keeps="equal",
        note="its traceback is gone",
    ),
]
