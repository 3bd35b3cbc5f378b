"""Eight processes committing to one collection, some of them killed: every commit that was acknowledged is
there, once, and in the order that its writer made them."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

from lading.log.file import LogFile
from lading.log.table import Table
from lading.model import Commit

WRITERS = 8
COMMITS = 40

CHILD = """
import sys
import time
from pathlib import Path
from lading.log.table import Table
from lading.errors import Conflict
from lading.model import Commit, Member

folder, writer, commits = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
table = Table.open(folder)
for number in range(commits):
    path = f"{writer}-{number}.parquet"
    member = Member(path, 1, 1, 0, 0, 0, None, None, "2024-01-01", {})
    while True:
        try:
            done = table.commit(Commit(f"{writer}-{number}", writer, "2024-01-01", "", add=(member,)))
            break
        except Conflict:  # somebody compacted past what this handle knows
            table.refresh()
    print(path, done.sequence, flush=True)
    if number % 11 == 10:
        table.checkpoint()
    if number % 17 == 16:
        table.compact()
"""


def start(folder: Path, said: Path, commits: int) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-c", CHILD, str(folder), said.name, str(commits)]
    with open(said, "wb") as out:
        return subprocess.Popen(command, stdout=out)


def acknowledged_in(said: Path) -> list[tuple[str, int]]:
    whole = [line.split() for line in said.read_text().splitlines(keepends=True) if line.endswith("\n")]
    return [(path, int(sequence)) for path, sequence in whole]


def test_every_acknowledged_commit_is_there_once_and_in_order(tmp_path):
    folder = tmp_path / "t"
    Table.create(folder, "t")
    doomed = {"w1": 5, "w4": 18, "w6": 30}  # after how many commits
    writers = [f"w{number}" for number in range(WRITERS)]
    processes = {
        writer: start(folder, tmp_path / writer, 100_000 if writer in doomed else COMMITS)
        for writer in writers
    }
    for writer, commits in doomed.items():
        while len(acknowledged_in(tmp_path / writer)) < commits:
            assert processes[writer].poll() is None
            time.sleep(0.005)
        processes[writer].kill()
    for writer, process in processes.items():
        assert process.wait(timeout=300) == (-signal.SIGKILL if writer in doomed else 0)
    said = {writer: acknowledged_in(tmp_path / writer) for writer in writers}
    state = Table.open(folder).state
    held = [member.path for member in state.in_order_added()]
    assert len(held) == len(set(held)) == state.count() == state.sequence
    place = {path: number for number, path in enumerate(held)}
    for writer, acknowledged in said.items():
        if writer not in doomed:
            assert len(acknowledged) == COMMITS
        assert [held[sequence - 1] for _, sequence in acknowledged] == [path for path, _ in acknowledged]
        own = [path for path in held if path.startswith(f"{writer}-")]
        assert own == [f"{writer}-{number}.parquet" for number in range(len(own))]
        # A kill may come between the commit and its acknowledgement: one more at most.
        assert 0 <= len(own) - len(acknowledged) <= 1
        assert [place[path] for path, _ in acknowledged] == sorted(place[path] for path, _ in acknowledged)
    Table.open(folder).commit(Commit("last", "last", "2024-01-01", ""))
    assert not LogFile(folder).read().frames.torn
