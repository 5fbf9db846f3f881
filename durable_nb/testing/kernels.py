"""Real IPython kernels for tests and tutorials: those that the demonstration drives."""

from __future__ import annotations

from durable_nb.kernel.driver import Kernel, Reply

__all__ = ["Kernel", "Reply"]
