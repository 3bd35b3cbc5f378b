"""A real file system whose power is cut: ext4 on a loop device, and of its blocks only those that were
written when everything was killed. What the kernel still holds in memory is not in the copy that is mounted
then.

Needs the right to mount; says so where there is none.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import lading
from lading.collection import Collection
from lading.config.file import load
from lading.run import run
from lading.upkeep.verify import verify
from lading.watch import Watch

CUTS = 40 if os.environ.get("LADING_SOAK") else 3
CONFIG = """\
warehouse: warehouse
spark: {in_process_below: 1GB}
tables:
  t: {root: data, path: "*.csv", format: csv, order_by: id, bucket_size: 50}
"""
SCHEMA = "columns:\n  - {name: id, type: bigint}\n  - {name: note, type: string}\n"

# Goes on until it is killed, and says of each change when it is done. Its own files are synced: they are not
# lading's to keep.
_AT_WORK = """
import os, sys
from pathlib import Path
import pyarrow as pa, pyarrow.parquet as pq
from lading.collection import Collection
from lading.config.file import load
from lading.run import run
top = Path(sys.argv[1])

def durable(path, data):
    with open(path, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    folder = os.open(path.parent, os.O_RDONLY)
    os.fsync(folder)
    os.close(folder)

config = load(top / "project")
files = Collection(top / "collection")
print("ready", flush=True)
for number in range(1, 100_000):
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({"id": [number]}), sink)
    durable(top / "collection" / f"f{number}.parquet", sink.getvalue().to_pybytes())
    files.add(top / "collection" / f"f{number}.parquet")
    if number % 3 == 0:
        files.remove(f"f{number - 2}.parquet")
    if number % 7 == 0:
        files.compact()
    print("collection", number, flush=True)
    rows = "".join(f"{row},{number}.{row}\\n" for row in range(number % 5 + 1))
    durable(top / "project" / "data" / f"s{number % 3}.csv", f"id,note\\n{rows}".encode())
    report = run(config)
    if report.error is not None:
        raise report.error
    print("table", number, report.tables[0].sequence, flush=True)
"""


class Machine:
    """A disk image and where it is mounted."""

    def __init__(self, folder: Path) -> None:
        self.image, self.top = folder / "disk.img", folder / "disk"
        self.top.mkdir()
        with open(self.image, "wb") as file:
            file.truncate(96 << 20)
        _call("mkfs.ext4", "-q", "-F", str(self.image))
        self.mount()

    def mount(self) -> None:
        # The kernel writes back by itself only after minutes: what isn't synced is lost for sure.
        _call("mount", "-o", "loop,commit=300", str(self.image), str(self.top))

    def unmount(self) -> None:
        _call("umount", str(self.top))

    def cut_power(self) -> None:
        """Only what has reached the disk is left."""
        left = self.image.with_suffix(".left")
        _call("cp", "--sparse=always", str(self.image), str(left))
        self.unmount()
        os.replace(left, self.image)
        self.mount()


def _call(*words: str) -> None:
    subprocess.run(words, check=True, capture_output=True)


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    try:
        made = Machine(tmp_path)
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"no file system can be mounted here: {error}")
    yield made
    made.unmount()


def prepare(top: Path) -> None:
    for folder in ("collection", "project/data", "project/schema"):
        (top / folder).mkdir(parents=True)
    (top / "project" / "lading.yaml").write_text(CONFIG)
    (top / "project" / "schema" / "t.yaml").write_text(SCHEMA)
    os.sync()


def told_until_killed(top: Path, lines: int, seconds: float) -> dict[str, list[int]]:
    """The last that was said of each kind: at least so many lines, and for so long after them."""
    process = subprocess.Popen(
        [sys.executable, "-c", _AT_WORK, str(top)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None and process.stderr is not None
    assert process.stdout.readline() == "ready\n", process.stderr.read()
    said = [process.stdout.readline() for _ in range(lines)]
    time.sleep(seconds)
    process.send_signal(signal.SIGKILL)
    rest, wrong = process.communicate()
    assert process.returncode == -signal.SIGKILL, wrong
    return {kind: list(map(int, told)) for kind, *told in map(str.split, [*said, *rest.splitlines()])}


def live(number: int) -> set[str]:
    """The collection after so many changes."""
    removed = {one - 2 for one in range(3, number + 1, 3)}
    return {f"f{one}.parquet" for one in range(1, number + 1) if one not in removed}


def test_what_was_said_to_be_done_outlives_a_power_cut(machine: Machine) -> None:
    prepare(machine.top)
    chance = random.Random(7)
    for _ in range(CUTS):
        _empty(machine.top)
        said = told_until_killed(machine.top, chance.randint(1, 30), chance.uniform(0, 0.1))
        machine.cut_power()
        check_collection(machine.top / "collection", *said.get("collection", [0]))
        check_table(machine.top / "project", said.get("table"))


def _empty(top: Path) -> None:
    """Each time from the beginning."""
    _call("rm", "-rf", *(str(top / name) for name in ("collection", "project")))
    prepare(top)


def check_collection(folder: Path, number: int) -> None:
    with Collection(folder) as found:
        _, damage = found.check()
        assert not damage
        members = {one.path for one in found.members()}
    # One change more may have been made, in whole or the first step of it.
    more = live(number) | {f"f{number + 1}.parquet"}
    assert members in (live(number), more, live(number + 1)), (number, members)


def check_table(project: Path, said: list[int] | None) -> None:
    config = load(project)
    if said is not None:
        number, sequence = said
        with lading.open(project / "warehouse" / "t") as reader:
            assert reader.info()["sequence"] >= sequence
            notes = reader.scan(columns=["note"]).to_table().column(0).to_pylist()
        assert {note.partition(".")[0] for note in notes} & {str(number), str(number + 1)}
    report = run(config, allow_vanish=True)
    assert report.error is None, report.error
    wanted = sorted(
        line.partition(",")[2]
        for path in (project / "data").glob("*.csv")
        for line in path.read_text().splitlines()[1:]
    )
    if wanted:
        with lading.open(project / "warehouse" / "t") as reader:
            assert sorted(reader.scan(columns=["note"]).to_table().column(0).to_pylist()) == wanted
        found, _ = verify(config, "t", watch=Watch())
        assert not [one for one in found.findings if one.level == "error"]
