"""Eight processes changing a collection, in a folder or in a bucket over a bad network, some of them killed:
every change that was acknowledged is there, once, and in the order that its writer made them."""

from __future__ import annotations

import io
import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.faults import FaultyHttp, Weather
from support.servers import S3Server

import lading
from lading.log.table import Table
from lading.model import Place
from lading.storage.place import Where, storage_of

WRITERS = 8
FILES = 4

# Adds a file, sets its tier, takes the one before out again: three commits a file.
CHILD = """
import json
import sys
import lading
from lading.errors import CommitUnknown, StorageError

url, options, cache, writer, files = sys.argv[1:]


def until_answered(work, *arguments):
    while True:
        try:
            return work(*arguments)
        except (CommitUnknown, StorageError):  # the store did not answer: asked again
            pass


def remove(path):
    collection.refresh()
    if any(member.path == path for member in collection.members()):
        collection.remove(path)


collection = until_answered(lambda: lading.Collection(url, s3=json.loads(options), cache=cache))
for number in range(int(files)):
    name, before = f"{writer}-{number}.parquet", f"{writer}-{number - 1}.parquet"
    until_answered(collection.add, name)
    print("add", name, flush=True)
    until_answered(collection.tier, name, number + 1)
    print("tier", name, flush=True)
    if number:
        until_answered(remove, before)
        print("remove", before, flush=True)
    if number == 2 and "://" in url:  # in a folder that would drop the history, which the test reads
        until_answered(collection.compact)
"""


def acknowledged_in(said: Path) -> list[tuple[str, str]]:
    whole = [line.split() for line in said.read_text().splitlines(keepends=True) if line.endswith("\n")]
    return [(what, path) for what, path in whole]


@pytest.mark.parametrize("kind", ["folder", "bucket"])
def test_every_acknowledged_change_is_there_once_and_in_order(
    there: Place, faulty: FaultyHttp, s3_server: S3Server, tmp_path: Path, kind: str
) -> None:
    where = there if kind == "bucket" else tmp_path / "c"
    cache = tmp_path / "cache"
    writers = [f"w{number}" for number in range(WRITERS)]
    doomed = {"w1": 2, "w4": 5, "w6": 7}  # after how many changes
    files = {writer: 30 if writer in doomed else FILES for writer in writers}
    put_files(where, ["first.parquet", *(f"{w}-{n}.parquet" for w in writers for n in range(files[w]))])
    lading.Collection(str(where), s3=dict(there.options), cache=cache).add("first.parquet", key="k")
    faulty.plan = Weather(20261116, 0.1, "/log/")
    options = json.dumps(s3_server.options(faulty.endpoint))
    processes = {}
    for writer in writers:
        arguments = [str(where), options, str(cache), writer, str(files[writer])]
        with open(tmp_path / writer, "wb") as said:
            processes[writer] = subprocess.Popen([sys.executable, "-c", CHILD, *arguments], stdout=said)
    for writer, changes in doomed.items():
        while len(acknowledged_in(tmp_path / writer)) < changes:
            assert processes[writer].poll() is None
            time.sleep(0.01)
        processes[writer].kill()
    for writer, process in processes.items():
        assert process.wait(timeout=300) == (-signal.SIGKILL if writer in doomed else 0)
    if kind == "bucket":
        assert set(faulty.faults) == {"409", "412", "503", "lost", "cut", "slow"}
    made = made_in(Table.open(where))
    assert len(made) == len(set(made)), "nothing twice"
    for writer in writers:
        said = acknowledged_in(tmp_path / writer)
        own = [one for one in made if one[1].startswith(f"{writer}-")]
        assert own[: len(said)] == said
        # A kill may come between a commit and its acknowledgement: one more at most.
        assert len(own) - len(said) <= (1 if writer in doomed else 0)
        assert writer in doomed or len(said) == 3 * FILES - 1
    again = lading.Collection(str(where), s3=dict(there.options), cache=cache)
    live = {path for what, path in made if what == "add"} - {path for what, path in made if what == "remove"}
    assert {member.path for member in again.members()} == live
    assert again.scan().to_table().num_rows == len(live) == again.rows


def put_files(where: Where, names: list[str]) -> None:
    for number, name in enumerate(names):
        out = io.BytesIO()
        pq.write_table(pa.table({"k": [number]}), out)
        storage_of(where).put_new(name, out.getvalue())


def made_in(table: Table) -> list[tuple[str, str]]:
    """What the commits say, in their order."""
    found = []
    for commit in table.history():
        found += [("add", member.path) for member in commit.add]
        found += [("tier", path) for path, _ in commit.tier]
        found += [("remove", path) for path in commit.remove]
    return found
