"""What classic PySpark raises when its JVM fails beneath it. A Spark Connect client has no such gateway,
and then nothing ever raises this."""

from __future__ import annotations

try:
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]
except ImportError:

    class Py4JError(Exception):  # type: ignore[no-redef]
        """Stands in for what can't happen."""


__all__ = ["Py4JError"]
