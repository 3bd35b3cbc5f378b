"""Spark on loopback, from the pyspark package: a standalone cluster of a master and workers of one core each,
and a Spark Connect server."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import sysconfig
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pyspark
from support.apart import apart

import lading
from lading.spark.java import java_home

HOME = Path(pyspark.__file__).parent
_PACKAGE = Path(lading.__file__).resolve().parents[1]
_PATIENCE = 60.0  # seconds for a daemon to come up


class Daemon:
    """One JVM of the cluster, with a log."""

    def __init__(
        self,
        folder: Path,
        name: str,
        host: str,
        *arguments: str,
        memory: str = "256m",
        before: Sequence[str] = (),
        more: dict[str, str] | None = None,
    ) -> None:
        """`before` is what the command is put behind, `more` belongs to its environment."""
        self.log = folder / f"{name}.log"
        environment = {
            **os.environ,
            "JAVA_HOME": str(java_home(folder / "java")),
            "SPARK_HOME": str(HOME),
            "SPARK_LOCAL_IP": host,
            "PYSPARK_PYTHON": sys.executable,
            "SPARK_DAEMON_MEMORY": memory,
            **(more or {}),
        }
        environment.pop("LADING_SPARK_LOG", None)
        command = [*before, str(HOME / "bin" / "spark-class"), *arguments]
        with open(self.log, "wb") as out:
            self.process = subprocess.Popen(
                command, stdout=out, stderr=out, env=environment, cwd=folder, start_new_session=True
            )

    def wait_for(self, pattern: str) -> re.Match[str]:
        """What the log says sooner or later."""
        deadline = time.monotonic() + _PATIENCE
        while time.monotonic() < deadline:
            found = re.search(pattern, self.log.read_text(errors="replace"))
            if found:
                return found
            assert self.process.poll() is None, self.log.read_text(errors="replace")
            time.sleep(0.1)
        raise AssertionError(f"{pattern!r} not in {self.log.read_text(errors='replace')}")

    def kill(self) -> None:
        """This daemon and the executors that it started, at once and without a word to anybody."""
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(10)


class Cluster:
    """`url` is its master; `workers` are there to be killed.

    `hidden` are folders that no worker sees: each is alone with the installation, `hooks` (a folder for
    PYTHONPATH) and what it writes itself."""

    def __init__(
        self, folder: Path, workers: int = 2, *, hidden: Sequence[Path] = (), hooks: Path | None = None
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder, self._hidden, self._hooks = folder, hidden, hooks
        self.workers: list[Daemon] = []
        self.master = Daemon(
            folder, "master", "127.0.0.1", "org.apache.spark.deploy.master.Master",
            "--host", "127.0.0.1", "--port", "0", "--webui-port", "0",
        )  # fmt: skip
        try:
            self.url = self.master.wait_for(r"(spark://127\.0\.0\.1:\d+)")[1]
            for number in range(workers):
                self.workers.append(self._worker(folder, number))
            for worker in self.workers:
                worker.wait_for("Successfully registered with master")
        except BaseException:
            self.close()
            raise

    def seen_by(self, worker: Daemon, path: Path) -> Path:
        """What a worker that is alive finds at `path`."""
        return Path("/proc", str(worker.process.pid), "root", *path.resolve().parts[1:])

    def logs(self) -> Iterator[str]:
        """What master, workers and the executors of those that are alive have written so far."""
        for daemon in (self.master, *self.workers):
            yield daemon.log.read_text(errors="replace")
        for number, worker in enumerate(self.workers):
            if worker.process.poll() is None:
                for file in self.seen_by(worker, self._work(number)).rglob("std*"):
                    yield file.read_text(errors="replace")

    def _work(self, number: int) -> Path:
        return self._folder / f"work{number}"

    def _worker(self, folder: Path, number: int) -> Daemon:
        host = f"127.0.0.{number + 2}"  # Spark never speculates on the host where a task runs already
        options = ("--host", host, "--webui-port", "0", "-c", "1", "-m", "1g")
        work = ("-d", str(self._work(number)))
        name = "org.apache.spark.deploy.worker.Worker"
        before: list[str] = []
        paths = [*([self._hooks] if self._hooks is not None else []), _PACKAGE]
        if self._hidden:
            before = apart(
                self._hidden, [*_installation(), *paths, folder / "java"], folder / f"stage{number}"
            )
        arguments = (name, *options, *work, self.url)
        more = {"PYTHONPATH": os.pathsep.join(map(str, paths))}
        return Daemon(folder, f"worker{number}", host, *arguments, before=before, more=more)

    def close(self) -> None:
        for daemon in (*self.workers, self.master):
            if daemon.process.poll() is None:
                daemon.kill()


def _installation() -> list[Path]:
    """Where Python and its packages lie."""
    return [Path(sys.prefix), Path(sys.base_prefix), Path(sysconfig.get_path("stdlib")), HOME]


def _free_port() -> int:
    """One that nobody listens on; Spark Connect doesn't look for one by itself."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        return int(held.getsockname()[1])


class ConnectServer:
    """`url` is where Spark Connect clients find it; its tasks run in its own JVM, on one core."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        conf = {
            "spark.connect.grpc.binding.address": "127.0.0.1",
            "spark.connect.grpc.binding.port": str(_free_port()),
            "spark.driver.host": "127.0.0.1",
            "spark.ui.enabled": "false",
            "spark.sql.warehouse.dir": str(folder / "warehouse"),
            "spark.local.dir": str(folder / "local"),
        }
        self._daemon = Daemon(
            folder, "connect", "127.0.0.1", "org.apache.spark.deploy.SparkSubmit", "--master", "local[1]",
            *(part for name, value in conf.items() for part in ("--conf", f"{name}={value}")),
            "--class", "org.apache.spark.sql.connect.service.SparkConnectServer", "spark-internal",
            memory="1g",
        )  # fmt: skip
        try:
            found = self._daemon.wait_for(r"Connect server started at: (127\.0\.0\.1:\d+)")
        except BaseException:
            self.close()
            raise
        self.url = f"sc://{found[1]}"

    def close(self) -> None:
        if self._daemon.process.poll() is None:
            self._daemon.kill()
