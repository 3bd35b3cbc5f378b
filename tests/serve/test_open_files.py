"""More shards than a process may have files open: every key is answered all the same."""

from __future__ import annotations

import json
import subprocess
import sys
import uuid
from pathlib import Path
from typing import Any

import pytest
from support.handmade import ServedTable
from support.servers import S3Server

from lading.serve.open.limit import OpenFiles
from lading.snapshots.stores.files import BucketStore

COUNT, SHARDS, FILES = 300, 100, 64

# Opens the table with few files to spare and asks for every key from many threads; what was open at most.
READER = """
import json, os, resource, sys, threading
import lading
root, store_url, options, cache, files, count, taken, spoil = json.loads(sys.argv[1])
if spoil:
    sys.modules["apsw"] = None
store = None
if store_url:
    from lading.snapshots.stores.files import BucketStore
    store = BucketStore(store_url, options)
reader = lading.open(root, store, cache=cache)
reader.get(0)  # what Python imports on the way is open by now
resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))
held = [os.open("/", os.O_RDONLY) for _ in range(taken)]
most, wrong = 0, []

def ask(start):
    global most
    for at in range(count):
        key = (start + at * 7) % count
        try:
            if reader.get(key) != b"%d" % key:
                wrong.append(key)
        except lading.LadingError as error:
            wrong.append(str(error))
            return
        if at % 50 == 0:
            most = max(most, len(os.listdir("/proc/self/fd")))

threads = [threading.Thread(target=ask, args=(number * 131,)) for number in range(4)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
many = reader.multi_get(range(count))
print(json.dumps({"most": most, "wrong": wrong[:3], "many": many == {k: b"%d" % k for k in range(count)},
                  "deep": reader.health(deep=True)["status"]}))
"""


def read(root: Path, *, files: int = FILES, taken: int = 0, engine: str = "apsw", **bucket: Any) -> Any:
    told = [
        str(root), bucket.get("url"), bucket.get("options"), str(bucket.get("cache", "")), files, COUNT,
        taken, engine == "sqlite3",
    ]  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-c", READER, json.dumps(told)], capture_output=True, text=True, timeout=240
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    table = ServedTable(tmp_path_factory.mktemp("many") / "ships", num_dbs=SHARDS)
    table.publish({key: b"%d" % key for key in range(COUNT)})
    return table.root


@pytest.mark.parametrize("engine", ["apsw", "sqlite3"])
def test_a_table_of_more_shards_than_open_files_answers_every_key(root: Path, engine: str) -> None:
    found = read(root, engine=engine)
    assert found == {"most": found["most"], "wrong": [], "many": True, "deep": "ok"}
    assert found["most"] <= FILES


def test_files_that_others_have_open_are_given_way_to(root: Path) -> None:
    """Half of the limit is for everybody else; where that isn't enough, idle shards are closed."""
    assert read(root, taken=30)["wrong"] == []


def test_no_file_left_at_all_is_said_with_what_helps(root: Path) -> None:
    found = read(root, taken=0, files=8)
    assert "as many files open as it is allowed" in found["wrong"][0] and "ulimit -n" in found["wrong"][0]


def test_shards_fetched_from_a_bucket_are_bounded_too(s3_server: S3Server, tmp_path: Path) -> None:
    url = f"{s3_server.bucket(f'files-{uuid.uuid4().hex[:12]}')}/warehouse/ships"
    store = BucketStore(url, s3_server.options())
    table = ServedTable(tmp_path / "ships", num_dbs=60, store=store, storage=store.storage)
    table.publish({key: b"%d" % key for key in range(COUNT)})
    cache = tmp_path / "cache"
    found = read(table.root, url=url, options=s3_server.options(), cache=cache, files=72)
    assert (found["wrong"], found["many"], found["deep"]) == ([], True, "ok")


class Fake:
    """A shard with idle connections, as far as the bound sees it."""

    def __init__(self, files: OpenFiles, idle: int = 1) -> None:
        self.files, self.idle, self.used, self.retired = files, [None] * idle, False, False
        for _ in range(idle):
            files.take(self)

    def retire(self) -> None:
        self.retired = True
        while self.idle:
            self.idle.pop()
            self.files.give_back(self)


def test_what_was_not_used_lately_goes_first_and_what_is_in_use_stays() -> None:
    files = OpenFiles(4)
    used, unused, busy = Fake(files), Fake(files), Fake(files)
    used.used = True
    busy.idle.clear()  # its connection is lent
    fourth = Fake(files)
    assert files.total == 4 and not any(one.retired for one in (used, unused, busy, fourth))
    Fake(files)
    assert (used.retired, unused.retired, busy.retired) == (False, True, False)
    Fake(files), Fake(files), Fake(files)
    assert files.total == 4 and not busy.retired


def test_the_bound_follows_what_the_process_may_have(monkeypatch: pytest.MonkeyPatch) -> None:
    import resource

    for soft, wanted in ((256, 128), (1024, 512), (1 << 20, 8192), (resource.RLIM_INFINITY, 8192), (1, 1)):
        monkeypatch.setattr(resource, "getrlimit", lambda _, soft=soft: (soft, soft))
        assert OpenFiles().limit == wanted
