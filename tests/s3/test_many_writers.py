"""Eight processes committing to one table in a bucket over a bad network, some of them killed: every commit
that was acknowledged is there, once, and in the order that its writer made them."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

from support.faults import FaultyHttp, Weather
from support.servers import S3Server

from lading.log.table import Table
from lading.model import Commit, Place

WRITERS = 8
COMMITS = 8

CHILD = """
import json
import sys
from pathlib import Path
from lading.log.table import Table
from lading.errors import Conflict, StorageError
from lading.model import Commit, Member
from lading.storage.place import place

url, options, cache, writer, commits = sys.argv[1:]
there = place(url, json.loads(options), Path(cache))


def opened():
    while True:
        try:
            return Table.open(there)
        except StorageError:
            pass


table = opened()
for number in range(int(commits)):
    path = f"{writer}-{number}.parquet"
    member = Member(path, 1, 1, 0, 0, 0, None, None, "2024-01-01", {})
    while True:
        try:
            done = table.commit(Commit(f"{writer}-{number}", writer, "2024-01-01", "", add=(member,)))
            print(path, done.sequence, flush=True)
            break
        except (Conflict, StorageError):  # whether it was made has to be looked up
            table = opened()
            if table.state.contains(path):
                break
    if number % 5 == 4:
        try:
            table.checkpoint()
        except StorageError:
            table = opened()
"""


def start(there: Place, options: dict[str, str], said: Path, commits: int) -> subprocess.Popen[bytes]:
    arguments = [there.url, json.dumps(options), str(there.cache), said.name, str(commits)]
    with open(said, "wb") as out:
        return subprocess.Popen([sys.executable, "-c", CHILD, *arguments], stdout=out)


def acknowledged_in(said: Path) -> list[tuple[str, int]]:
    whole = [line.split() for line in said.read_text().splitlines(keepends=True) if line.endswith("\n")]
    return [(path, int(sequence)) for path, sequence in whole]


def test_every_acknowledged_commit_is_there_once_and_in_order(
    there: Place, faulty: FaultyHttp, s3_server: S3Server, tmp_path: Path
) -> None:
    Table.create(there, "t")
    faulty.plan = Weather(20261115, 0.15, "/log/")
    doomed = {"w1": 2, "w4": 4, "w6": 5}  # after how many commits
    writers = [f"w{number}" for number in range(WRITERS)]
    options = s3_server.options(faulty.endpoint)
    processes = {
        writer: start(there, options, tmp_path / writer, 100_000 if writer in doomed else COMMITS)
        for writer in writers
    }
    for writer, commits in doomed.items():
        while len(acknowledged_in(tmp_path / writer)) < commits:
            assert processes[writer].poll() is None
            time.sleep(0.01)
        processes[writer].kill()
    for writer, process in processes.items():
        assert process.wait(timeout=300) == (-signal.SIGKILL if writer in doomed else 0)
    # The network was bad: had it not been, this test would say little.
    assert set(faulty.faults) == {"409", "412", "503", "lost", "cut", "slow"}
    said = {writer: acknowledged_in(tmp_path / writer) for writer in writers}
    state = Table.open(there).state
    held = [member.path for member in state.in_order_added()]
    assert len(held) == len(set(held)) == state.count() == state.sequence
    for writer, acknowledged in said.items():
        assert [held[sequence - 1] for _, sequence in acknowledged] == [path for path, _ in acknowledged]
        own = [path for path in held if path.startswith(f"{writer}-")]
        assert own == [f"{writer}-{number}.parquet" for number in range(len(own))]
        assert writer in doomed or len(own) == COMMITS
        sequences = [sequence for _, sequence in acknowledged]
        assert sequences == sorted(sequences)
    assert Table.open(there).commit(Commit("last", "last", "2024-01-01", "")).sequence == state.sequence + 1
