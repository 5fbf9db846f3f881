"""`python -m durable_nb VERB …` is `durable-nb VERB …`, for where no script of that name is on the search path.

Called by Python's `-m`; the exit code is that of the command line.
"""

from __future__ import annotations

import sys

from durable_nb.cli import main

if __name__ == "__main__":
    sys.exit(main())
