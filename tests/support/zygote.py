"""Kills an operation at its n-th durable step, for every n, for real: SIGKILL, no handler runs.

One process imports everything once and forks a child for each n; the child lets the steps before the
n-th happen and dies in it. `python zygote.py OPERATION FOLDER` works on copies FOLDER-0, FOLDER-1, … and
prints one line each: `killed <call>`, or `done` for the first that ran to its end.
"""

from __future__ import annotations

import builtins
import os
import shutil
import signal
import sys
from pathlib import Path

import pyarrow.parquet  # noqa: F401  (before the first fork)

import lading
import lading.upkeep.merge
from lading.config.file import load as load_config
from lading.log import changes as adding  # noqa: F401
from lading.log import changes as names  # noqa: F401
from lading.log import check, listing, state, table  # noqa: F401
from lading.parts import fold as merge  # noqa: F401
from lading.parts import intake  # noqa: F401
from lading.read import lookup, scan  # noqa: F401
from lading.upkeep import rebuild as restore  # noqa: F401

STEPS = ("fsync", "replace", "rename", "link", "unlink", "pwrite", "ftruncate", "sendfile")


class Written:
    """A file open for writing, each write to which is a step."""

    def __init__(self, file, step) -> None:  # type: ignore[no-untyped-def]
        self._file, self._step = file, step

    def write(self, data: bytes) -> int:
        def half() -> None:
            self._file.write(bytes(data)[: len(bytes(data)) // 2])
            self._file.flush()

        self._step("write", half)
        return int(self._file.write(data))

    def __getattr__(self, name: str) -> object:
        return getattr(self._file, name)

    def __enter__(self) -> Written:
        return self

    def __exit__(self, *args: object) -> None:
        self._file.close()


def kill_at(number: int, told: int) -> None:
    """Die in the `number`-th step: half of a write is done, a rename or sync is not."""
    count = 0

    def counted(name: str, half) -> None:  # type: ignore[no-untyped-def]
        nonlocal count
        count += 1
        if count == number:
            half()
            os.write(told, f"killed {name}\n".encode())
            os.kill(os.getpid(), signal.SIGKILL)

    def dying(name: str, real):  # type: ignore[no-untyped-def]
        def step(*args: object, **options: object) -> object:
            def half() -> None:
                if name == "pwrite":
                    real(args[0], bytes(args[1])[: len(bytes(args[1])) // 2], args[2])  # type: ignore[call-overload]

            counted(name, half)
            return real(*args, **options)

        return step

    def opening(path, mode="r", *args, **options):  # type: ignore[no-untyped-def]
        file = real_open(path, mode, *args, **options)
        return Written(file, counted) if mode in ("wb", "ab") else file

    for name in STEPS:
        setattr(os, name, dying(name, getattr(os, name)))
    real_open = builtins.open
    builtins.open = opening


OPERATIONS = {
    "merge": lambda folder: lading.Collection(folder).merge("f0.parquet", "f1.parquet", into="new.parquet"),
    "compact": lambda folder: lading.Collection(folder).compact(),
    "checkpoint": lambda folder: table.Table.open(Path(folder)).checkpoint(),
    "add": lambda folder: lading.Collection(folder).add(Path(folder) / "f3.parquet"),
    "rebuild": lambda folder: lading.Collection.rebuild(folder),
    "table": lambda folder: lading.upkeep.merge.merge_table(load_config(Path(folder)), "events"),
}


def main(operation: str, folder: str) -> None:
    number = 0
    while True:
        number += 1
        copy = f"{folder}-{number}"
        shutil.copytree(folder, copy)
        listen, told = os.pipe()
        child = os.fork()
        if child == 0:
            kill_at(number, told)
            OPERATIONS[operation](copy)
            os.write(told, b"done\n")
            os._exit(0)
        os.close(told)
        os.waitpid(child, 0)
        with open(listen) as pipe:
            said = pipe.read().strip() or "failed"
        print(said, flush=True)
        if not said.startswith("killed"):
            return


if __name__ == "__main__":
    main(*sys.argv[1:])
