"""The one Spark session of a process, started when it is first needed and not before.

Three kinds of settings: those that correctness rests on (another value is a config error), those
that are merely good on one machine (a user's `spark.conf` wins), and the environment that the JVM is
born with. Spark writes nothing outside the cache, but for sockets, and nothing on the terminal.
"""

from __future__ import annotations

import logging
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from lading.errors import ConfigError, MissingExtra, PipelineError
from lading.layout.project import JAVA, SPARK, SPARK_LOG
from lading.secrets import holds_secret
from lading.spark.failures import Py4JError, no_package, raise_interrupt, said_first
from lading.spark.java import LOG_VARIABLE, found_java, java_environment, none_left_behind
from lading.spark.quick import forget_archive, train_later
from lading.spark.sockets import socket_settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# What lading's promises rest on, whatever a user's transform would prefer.
_FIXED = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.caseSensitive": "true",
    "spark.sql.legacy.timeParserPolicy": "CORRECTED",
    "spark.sql.files.ignoreCorruptFiles": "false",
    "spark.sql.files.ignoreMissingFiles": "false",
    # It follows every column through every step: minutes for a table of a few hundred columns.
    "spark.sql.constraintPropagation.enabled": "false",
    "spark.sql.debug.maxToStringFields": "1000000",  # plans are searched as text: nothing may be elided
    # It drops the subtree of an empty join, and with it what was observed there about bad rows.
    "spark.sql.adaptive.optimizer.excludedRules": (
        "org.apache.spark.sql.execution.adaptive.AQEPropagateEmptyRelation"
    ),
}

_DEFAULTS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.memory": "2g",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "65536",
    "spark.sql.shuffle.partitions": "200",
}

_LOCAL_DEFAULTS = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    # A value that overflows Java's stack in a pattern fails its job. By Spark's default it ends the JVM,
    # which is the driver too: no cause would be told, and no other table read.
    "spark.executor.killOnFatalError.depth": "0",
}

JOB_GROUP = "spark.jobGroup.id"  # a thread's: the jobs that it starts can be told from others'
_REMOTE = "sc://"  # a Spark Connect server
_REMOTE_PORT = 15002  # where it listens unless told otherwise
_PATIENCE = 10.0  # seconds that a JVM has to end
_LOG_KEPT = 1 << 20  # bytes; a longer log is started anew with the next session

_session: SparkSession | None = None
_starting = threading.Lock()  # whoever comes second gets what the first one started


def spark_session(master: str, conf: dict[str, str], cache: Path, app: str = "lading") -> SparkSession:
    """The process's session; the first call decides how it is set up."""
    global _session
    with _starting:
        if _session is None:
            _check_fixed(conf)
            with quiet_pandas():
                _session = _started(master, conf, cache, app)
        return _session


def session_beside(spark: SparkSession, conf: dict[str, str], group: str) -> SparkSession:
    """Another session on the same Spark, for one table of several that are run side by side: settings and
    names of views are its own, and the jobs of this thread are known as `group`."""
    ours = spark.newSession()
    _set_all(ours, conf)
    context = getattr(ours, "_sc", None)  # a Spark Connect client has none
    if context is not None:
        context.setLocalProperty(JOB_GROUP, group)
    return ours


def cancel_jobs(spark: SparkSession) -> None:
    """End what a session is doing, from another thread."""
    with suppress(Exception):  # a JVM that is dead or dying does nothing any more
        spark.interruptAll()


def is_started() -> bool:
    """Whether this process has a session of lading's."""
    return _session is not None


def runs_here(master: str) -> bool:
    """Whether tasks run on this machine: the session says so, or before there is one, its master."""
    existing = _session
    if existing is None and "pyspark.sql" in sys.modules:
        existing = sys.modules["pyspark.sql"].SparkSession.getActiveSession()
    if existing is None:
        return master.startswith("local")
    context = getattr(existing, "_sc", None)  # a Spark Connect client has none
    return context is not None and str(context.master).startswith("local")


def stop_session() -> None:
    """End the session and its JVM's jobs; the next `spark_session` starts a new one."""
    global _session
    if _session is not None:
        _session.stop()
        _session = None


def is_dead() -> bool:
    """Whether lading's own JVM has ended under the session."""
    process = _java_process()
    return process is not None and process.poll() is not None


def let_go(patience: float = _PATIENCE) -> bool:
    """End the session and, if it is lading's own, the JVM behind it; the next `spark_session` starts anew.
    Whether all ended by itself."""
    global _session
    if _session is None:
        return True
    process = _java_process()
    with suppress(Exception):  # of a JVM that is dead or dying nothing else can be asked
        _session.stop()
    _session = None
    if process is None:
        return True
    if process.stdin is not None:
        process.stdin.close()  # it ends when nobody holds the other end
    try:
        process.wait(patience)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    _forget_java()
    return process.returncode == 0


def _java_process() -> subprocess.Popen[bytes] | None:
    """The JVM that was started for the session; None if somebody else did, or it is a server's."""
    context = getattr(_session, "_sc", None)
    process: subprocess.Popen[bytes] | None = getattr(getattr(context, "_gateway", None), "proc", None)
    return process


def _forget_java() -> None:
    """PySpark believes that a JVM lives as long as its process."""
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    gateway = SparkContext._gateway
    with suppress(Exception):
        if gateway is not None:
            gateway.shutdown()
    SparkContext._gateway = SparkContext._jvm = None
    SparkContext._active_spark_context = None
    SparkSession._instantiatedSession = SparkSession._activeSession = None


def spark_log(cache: Path) -> Path:
    """Where the messages of the JVM and of its Python workers go."""
    return cache.absolute() / SPARK_LOG


@contextmanager
def quiet_pandas() -> Iterator[None]:
    """PySpark insists on pandas for Arrow functions that never touch it, then warns about pandas 3. What is
    ignored is the whole process's: the first thread sets it, the last one puts it back."""
    with _quiet.lock:
        _quiet.threads += 1
        if _quiet.threads == 1:
            _quiet.before.enter_context(warnings.catch_warnings())
            warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas", FutureWarning)
    try:
        yield
    finally:
        with _quiet.lock:
            _quiet.threads -= 1
            if _quiet.threads == 0:
                _quiet.before.close()


class _Quiet:
    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.threads = 0
        self.before = ExitStack()


_quiet = _Quiet()


def _check_fixed(conf: dict[str, str]) -> None:
    for name, value in _FIXED.items():
        given = conf.get(name)
        if given is not None and str(given).lower() != value.lower():
            raise ConfigError(
                f"spark.conf sets {name} to {given!r}, but lading needs {value!r}",
                hint=f"remove {name} from spark.conf in lading.yaml",
            )


def _started(master: str, conf: dict[str, str], cache: Path, app: str) -> SparkSession:
    try:
        from pyspark.errors import PySparkException
        from pyspark.sql import SparkSession
    except ImportError as error:
        raise MissingExtra(
            "this command reads files with Spark, but pyspark is not installed",
            hint="pip install 'lading[spark]'",
        ) from error
    # PySpark prints every analysis error as a JSON line before raising it.
    for logger in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
        logging.getLogger(logger).setLevel(logging.CRITICAL + 1)
    existing = SparkSession.getActiveSession()
    if existing is not None:
        return _beside(existing)
    if master.startswith(_REMOTE):
        return _connected(master, conf, app)
    log = _fresh_log(cache)
    builder = SparkSession.builder.master(master).appName(app)
    for name, value in _settings(master, conf, cache).items():
        builder = builder.config(name, value)
    try:
        with _environment(master, cache, log), _own_interrupts(), none_left_behind():
            try:
                started = builder.getOrCreate()
                if master.startswith("local"):
                    train_later(cache, cache.absolute() / JAVA, found_java()[0])
                return started
            except (PySparkException, RuntimeError) as error:
                raise_interrupt(error)
                if not forget_archive(cache.absolute() / JAVA):
                    raise
        with _environment(master, cache, log), _own_interrupts(), none_left_behind():
            return builder.getOrCreate()  # it may have been the archive, which is gone now
    except (PySparkException, Py4JError, OSError, RuntimeError) as error:
        raise_interrupt(error)
        raise PipelineError(
            f"Spark could not start on {master!r}: {said_first(error)}",
            hint=f"its own messages are in {log}",
        ) from error


def check_workers(spark: SparkSession) -> None:
    """PipelineError if the Python workers of somebody's local session can't import lading. A session that
    was made without PYSPARK_PYTHON runs them with the first `python3` of the PATH, whichever that is."""
    context = getattr(spark, "_sc", None)  # a Spark Connect client has none
    if context is None or not str(context.master).startswith("local"):
        return
    python = shutil.which(str(context.pythonExec))
    if python is None or os.path.abspath(python) == os.path.abspath(sys.executable):
        return
    asked = subprocess.run([python, "-c", "import lading.spark"], capture_output=True, text=True)
    if asked.returncode:
        raise no_package(f"{python} says {(asked.stderr.strip().splitlines() or ['nothing'])[-1]}")


def _beside(existing: SparkSession) -> SparkSession:
    """A session of our own on a context that somebody else started: their settings stay theirs."""
    from pyspark.errors import PySparkNotImplementedError

    check_workers(existing)
    try:
        ours = existing.newSession()
    except PySparkNotImplementedError as error:
        raise PipelineError(
            "this Spark Connect client can't open the second session that lading needs for its own settings",
            hint="use PySpark 4.3 or newer, or let lading connect: spark: {master: sc://host:port}",
        ) from error
    for name, value in _FIXED.items():
        ours.conf.set(name, value)
    return ours


def _connected(url: str, conf: dict[str, str], app: str) -> SparkSession:
    """A session on a Spark Connect server. No Java is needed here. What only a server can be started with
    (its memory, say) is the server's to decide and passed over."""
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    try:
        _refuse_silence(url)
        session = SparkSession.builder.remote(url).appName(app).getOrCreate()
        _set_all(session, conf)
    except ImportError as error:
        raise MissingExtra(
            f"connecting to {url!r} needs Spark's client, which is not installed: {said_first(error)}",
            hint="pip install 'pyspark[connect]'",
        ) from error
    except (PySparkException, OSError) as error:
        raise_interrupt(error)
        raise PipelineError(
            f"Spark could not be reached at {url!r}: {said_first(error)}",
            hint="check that the Spark Connect server runs there, in the same version as pyspark here",
        ) from (None if holds_secret(str(error)) else error)
    return session


def _set_all(session: SparkSession, conf: dict[str, str]) -> None:
    """As far as a session can be told after it began."""
    for name, value in {**_DEFAULTS, **{name: str(value) for name, value in conf.items()}}.items():
        if name not in _FIXED and session.conf.isModifiable(name):
            session.conf.set(name, value)
    for name, value in _FIXED.items():
        session.conf.set(name, value)


def _refuse_silence(url: str) -> None:
    """OSError if nobody listens there: Spark's client would go on trying for ten minutes."""
    try:
        where = urlsplit(url)
        address = (where.hostname or "localhost", where.port or _REMOTE_PORT)
    except ValueError as error:  # its text repeats a piece of the URL
        raise ConfigError(
            f"{url!r} is not the address of a Spark Connect server", hint="write it as sc://host:15002"
        ) from (None if holds_secret(url) else error)
    socket.create_connection(address, timeout=30).close()


@contextmanager
def _own_interrupts() -> Iterator[None]:
    """PySpark takes Ctrl-C over, to call the JVM in the middle of another call to it: a page of tracebacks.
    The interrupt stays Python's; the JVM ends with the process."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _settings(master: str, conf: dict[str, str], cache: Path) -> dict[str, str]:
    folder = cache.absolute() / SPARK
    settings = dict(_DEFAULTS)
    if master.startswith("local"):
        settings |= _LOCAL_DEFAULTS | socket_settings()
        settings["spark.sql.warehouse.dir"] = str(folder / "warehouse")
        if "," not in str(folder):  # Spark takes a comma for the end of one directory
            settings["spark.local.dir"] = str(folder / "local")
    return {**settings, **{name: str(value) for name, value in conf.items()}, **_FIXED}


def _fresh_log(cache: Path) -> Path:
    log = spark_log(cache)
    log.parent.mkdir(parents=True, exist_ok=True)
    if log.is_file() and log.stat().st_size > _LOG_KEPT:
        log.unlink()
    log.touch()
    return log


@contextmanager
def _environment(master: str, cache: Path, log: Path) -> Iterator[None]:
    """What the JVM and its workers inherit: a Java, this Python, and a way to import this package."""
    wanted = {**java_environment(cache), LOG_VARIABLE: str(log)}
    if master.startswith("local"):
        package_root = Path(__file__).resolve().parents[2]
        if package_root.name not in ("site-packages", "dist-packages"):  # a checkout: workers must find it
            paths = [str(package_root), *filter(None, [os.environ.get("PYTHONPATH")])]
            wanted["PYTHONPATH"] = os.pathsep.join(paths)
        wanted["PYSPARK_PYTHON"] = wanted["PYSPARK_DRIVER_PYTHON"] = sys.executable
    else:
        wanted["PYSPARK_PYTHON"] = os.environ.get("PYSPARK_PYTHON", sys.executable)
        wanted["PYSPARK_DRIVER_PYTHON"] = sys.executable
    before = {name: os.environ.get(name) for name in wanted}
    os.environ.update(wanted)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
