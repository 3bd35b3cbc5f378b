"""What tasks do in Spark's Python workers before their own work. A fresh worker has to import it, so it needs
nothing itself."""

from __future__ import annotations

import gc
import sys

_modules = 0


def imports_are_no_garbage() -> None:
    """PySpark's workers collect garbage after every task: 50 ms, nearly all of it spent on what imports made
    and nobody drops. Once for each time that there are more of them: what a task made would stay, too."""
    global _modules
    if len(sys.modules) != _modules:
        gc.freeze()
        _modules = len(sys.modules)
