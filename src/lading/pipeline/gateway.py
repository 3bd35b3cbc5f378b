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


__all__ = ["Py4JError", "hides_interrupt", "raise_interrupt"]


def raise_interrupt(error: BaseException) -> None:
    """Raise Ctrl-C again if `error` took its place."""
    if hides_interrupt(error):
        raise KeyboardInterrupt from error


def hides_interrupt(error: BaseException) -> bool:
    """Whether there was a Ctrl-C before it: PySpark tidies up behind an interrupted call by calling the JVM
    once more, and if that fails, what is raised looks like a failure of the job."""
    links, seen = [error], {id(error)}
    while links:
        link = links.pop()
        if isinstance(link, KeyboardInterrupt):
            return True
        for other in (link.__cause__, link.__context__):
            if other is not None and id(other) not in seen:
                seen.add(id(other))
                links.append(other)
    return False
