"""What a Spark job failed of, in the words of whoever raised it.

Spark says of an exception in a Python worker only that there was one, and puts a traceback below that. The
last line of it is the cause: an error of lading's own with its hint, a disk that is full, a package that the
worker doesn't have. What the JVM itself says of a full disk is looked for as well.
"""

from __future__ import annotations

import errno
import os
import re

import lading.errors as errors
from lading.errors import LadingError, PipelineError
from lading.storage.folder import disk_failure

_TRACEBACK = "Traceback (most recent call last):"
# Behind what Python said: Java's frames, Spark's code for the error, the driver's word on it.
_BEHIND = re.compile(r"\n\s+at [\w.$]+\(|\n+\s*SQLSTATE: |\n+JVM stacktrace:|\n+Driver stacktrace:")
_RAISED = re.compile(r"^([A-Za-z_][\w.]*)(?:: (.*))?\Z", re.DOTALL)
_HINT = "\n  hint: "
_ERRNO = re.compile(r"\[?[Ee]rrno (\d+)\]?")
_PATH = re.compile(r"'(/[^']*)'")
_FULL_IN_JAVA = re.compile(r"java\.io\.\w+: [^\n]*(No space left on device|Disk quota exceeded)")
_STACK = "java.lang.StackOverflowError"
_NO_LADING = re.compile(r"No module named '(lading|pyarrow|pandas|msgspec|xxhash|numpy)\b[^']*'")


def failure_of(error: Exception, what: str, *, table: str | None = None, hint: str = "") -> LadingError:
    """`what` is what Spark could not do, such as "build ships"."""
    text = str(error)
    found = worker_failure(text) or _full_disk_in_java(text)
    if found is not None:
        found.table = found.table or table
        return found
    said = cause_of(text) or first_line(text) or type(error).__name__
    if _STACK in said:
        hint = "write patterns as [ab]* rather than (a|b)*, and long expressions as several shorter ones"
    return PipelineError(
        f"Spark could not {what}: {said}",
        hint=hint or "Spark's own messages are in spark/spark.log in the cache folder",
        table=table,
    )


def worker_failure(text: str) -> LadingError | None:
    """The error of a Python worker, if it is one that has a remedy of its own."""
    said = cause_of(text)
    raised = _RAISED.match(said) if said is not None else None
    if said is None or raised is None:
        return _missing_package(text)
    kind = getattr(errors, raised[1].rpartition(".")[2], None)
    if raised[1].startswith("lading.errors.") and isinstance(kind, type) and issubclass(kind, LadingError):
        message, _, hint = (raised[2] or "").partition(_HINT)
        return kind(message.strip(), hint=hint.strip().splitlines()[0] if hint.strip() else "")
    if raised[1] == "MemoryError":
        return PipelineError(
            "a Spark Python worker ran out of memory",
            hint="run fewer at once (spark: {master: 'local[2]'}), or give the machine more memory",
        )
    return _missing_package(said) or _disk(said)


def cause_of(text: str) -> str | None:
    """What the last traceback of the first Python failure in the text ends with; None without one."""
    if _TRACEBACK not in text:
        return None
    start = text.index(_TRACEBACK)
    end = _BEHIND.search(text, start)
    last = text[start : end.start() if end else len(text)].rpartition(_TRACEBACK)[2]
    # Frames are indented; the exception is what begins at the margin.
    lines = last.strip("\n").split("\n")
    first = next((at for at, line in enumerate(lines) if line and not line[0].isspace()), None)
    return "\n".join(lines[first:]).strip() if first is not None else None


def said_first(error: BaseException) -> str:
    return first_line(str(error)) or type(error).__name__


def first_line(text: str) -> str:
    """What Spark or Java says first. The gateway's own first line only says which call failed; Java's
    follows a colon."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    said = next((line[1:].strip() for line in lines if line.startswith(": ")), lines[0] if lines else "")
    if _STACK in said:
        return f"an expression is nested too deeply, or a pattern repeats too often, for Spark ({_STACK})"
    if "java.lang.OutOfMemoryError" in said:
        return f"a value, or the rows of one task, doesn't fit into Spark's memory ({said})"
    return said


def _disk(said: str) -> LadingError | None:
    number = _ERRNO.search(said)
    if number is None:
        return None
    path = _PATH.search(said)
    code = int(number[1])
    return disk_failure(OSError(code, os.strerror(code), path[1] if path else None))


def _full_disk_in_java(text: str) -> LadingError | None:
    full = _FULL_IN_JAVA.search(text)
    if full is None:
        return None
    code = errno.ENOSPC if full[1].startswith("No space") else errno.EDQUOT
    return disk_failure(OSError(code, f"{full[1]}, reported by Spark, which writes below spark.local.dir"))


def _missing_package(text: str) -> PipelineError | None:
    missing = _NO_LADING.search(text)
    if missing is None:
        return None
    return no_package(missing[0])


def no_package(said: str) -> PipelineError:
    return PipelineError(
        f"Spark's Python workers can't import lading: {said}",
        hint="start Spark with PYSPARK_PYTHON set to this Python (os.environ['PYSPARK_PYTHON'] = "
        "sys.executable, before the session is made), or install lading[spark] where the workers run",
    )


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
