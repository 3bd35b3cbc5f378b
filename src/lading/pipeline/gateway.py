"""What PySpark raises, and what it may hide.

`Py4JError` comes from classic PySpark when its JVM fails beneath it. A Spark Connect client has no such
gateway, and then nothing ever raises this.
"""

from __future__ import annotations

try:
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]
except ImportError:

    class Py4JError(Exception):  # type: ignore[no-redef]
        """Stands in for what can't happen."""


__all__ = ["Py4JError", "raise_interrupt"]


def raise_interrupt(error: BaseException) -> None:
    """Raise Ctrl-C again if `error` took its place: PySpark tidies up behind an interrupted call by calling
    the JVM once more, and if that fails, what is raised looks like a failure of the job."""
    link: BaseException | None = error
    while link is not None:
        if isinstance(link, KeyboardInterrupt):
            raise KeyboardInterrupt from error
        link = link.__cause__ or link.__context__
