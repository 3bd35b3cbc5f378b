"""A cluster whose machines share nothing but lading's installation: everything is in a bucket.

Two workers see an empty file system where the driver has its project, its cache and its temporary files, and
one of their own each. Each step leaves the tables as the files are, or says what is wrong.
"""

from __future__ import annotations

import io
import json
import tempfile
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.apart import why_not
from support.cluster import Cluster
from support.driver import Driver
from support.machines import SOAK
from support.servers import S3Server

import lading
from lading.storage.bucket import ObjectStorage

pytestmark = pytest.mark.skipif(why_not() is not None, reason=str(why_not()))

PATIENCE = 300  # seconds
FILES, ROWS = (12, 400) if SOAK else (3, 40)
CONFIG = """\
warehouse: {url}/warehouse
store: {url}/manifests
s3: {s3}
spark:
  master: {master}
  conf:
    spark.driver.host: 127.0.0.1
    spark.executor.memory: 512m
    spark.sql.shuffle.partitions: "2"
    spark.eventLog.enabled: "true"
    spark.eventLog.dir: {events}
    spark.eventLog.compress: "false"  # to be searched
    spark.redaction.regex: "(?!)"  # Spark hides what looks like a secret: it is not to be relied on
tables:
  ships:                   # Arrow all the way, served by key
    root: {url}/raw
    path: "ships/*.json"
    format: json
    order_by: day
    bucket_size: 10d
    on_bad: quarantine
    checks:
      - range: {{column: tonnes, min: 0}}
      - unique: [imo, day, tonnes]
    serve: {{key: imo, value: [day, tonnes], shards: 3, duplicates: latest}}
  calls:                   # through Spark, with a user's code
    root: {url}/raw
    path: "calls/*.parquet"
    format: parquet
    order_by: at
    transform: transforms/calls.py:apply
    checks:
      - sql: "fee <= 100000"
    gate: {{sql: "max(fee) < 1000000"}}
  local:                   # what no worker can see
    root: data
    path: "*.json"
    format: json
  fees:                    # through Spark, with a user's SQL
    root: {url}/raw
    path: "ships/*.json"
    format: json
    order_by: imo
    on_bad: quarantine
    checks:
      - sql: "tonnes % 1000 <> 999"
"""
SCHEMA = """\
columns:
  - {name: imo, type: bigint}
  - {name: day, type: date}
  - {name: tonnes, type: bigint}
"""
# The function that runs in the workers is in a module of its own, which they can't import.
TRANSFORM = """\
from pyspark.sql import functions as F
from pyspark.sql.types import LongType
from rates import fee


def apply(rows, context):
    return rows.withColumn("fee", F.udf(fee, LongType())("tonnes"))
"""
RATES = """\
RATE = {rate}


def fee(tonnes):
    return tonnes * RATE
"""
# In the workers: a task that has written its parts and not said so yet leaves a mark, and waits for as long
# as it is asked to.
HOOKS = """\
import os, time
import lading.ingest.tasks.task as task


def hesitating(batches, spec):
    done = written(batches, spec)
    if os.path.exists({wait!r}):
        open({mark!r}, "w").close()
    while os.path.exists({wait!r}):
        time.sleep(0.1)
    return done


written, task.written = task.written, hesitating
"""
# On the driver, so that a few rows are many tasks and all folds are Spark's.
SETTINGS = {
    "lading.ingest.tasks.splits.SHARE": [2048, 2048],
    "lading.ingest.tasks.settle._HERE": 0,
    "lading.upkeep.merge.ON_SPARK": 0,
    "lading.spark.ingest._NO_SHUFFLE": 0,
    "lading.spark.ingest._PER_TASK": 2048,
    "lading.serve.shard._PER_TASK": 2048,
    "lading.serve.shard._HERE": 0,
}

TABLES = ("ships", "calls", "fees")
RUN = ("run", *TABLES, "--allow-vanish")

Ship = tuple[int, int, int]  # imo, day of January 2024, tonnes


class Shipping:
    """The files as they are in the bucket, and what the tables have to be."""

    def __init__(self, folder: Path, server: S3Server) -> None:
        self.folder = folder / "project"
        self.options = server.options()
        self.url = server.bucket(f"b{uuid.uuid4().hex[:12]}")
        self.raw = ObjectStorage(f"{self.url}/raw", self.options)
        self.events = folder / "events"
        self.events.mkdir()
        self.hooks = folder / "hooks"
        self.hooks.mkdir()
        self.wait, self.mark = folder / "wait", folder / "mark"  # where workers look
        hooks = HOOKS.format(wait=str(self.wait), mark=str(self.mark))
        (self.hooks / "sitecustomize.py").write_text(hooks)
        self.ships: dict[str, list[Ship]] = {}
        self.bad: dict[str, int] = {}  # records that are no ships, by file
        self.cluster: Cluster
        self.driver: Driver
        for name in ("schema", "transforms"):
            (self.folder / name).mkdir(parents=True)
        for table in ("ships", "fees", "local"):
            (self.folder / "schema" / f"{table}.yaml").write_text(SCHEMA)
        (self.folder / "transforms" / "calls.py").write_text(TRANSFORM)
        self.set_rate(2)

    def configure(self, master: str) -> None:
        s3 = json.dumps(self.options).replace('"true"', "true")
        text = CONFIG.format(url=self.url, s3=s3, master=master, events=self.events.as_uri())
        (self.folder / "lading.yaml").write_text(text)

    def set_rate(self, rate: int | None) -> None:
        self.rate = rate or 0
        (self.folder / "transforms" / "rates.py").write_text(RATES.format(rate=rate))

    def put(self, name: str, ships: list[Ship], bad: int = 0) -> None:
        self.ships[name], self.bad[name] = ships, bad
        lines = [json.dumps({"imo": imo, "day": f"2024-01-{d:02d}", "tonnes": t}) for imo, d, t in ships]
        lines += ['{"imo": "none"}'] * bad
        self.raw.put(f"ships/{name}.json", "\n".join(lines).encode())
        columns = {"at": [imo for imo, _, _ in ships], "tonnes": [t for _, _, t in ships]}
        out = io.BytesIO()
        pq.write_table(pa.table(columns), out)
        self.raw.put(f"calls/{name}.parquet", out.getvalue())

    def delete(self, name: str) -> None:
        del self.ships[name], self.bad[name]
        self.raw.delete(f"ships/{name}.json")
        self.raw.delete(f"calls/{name}.parquet")

    def run(self) -> dict[str, Any]:
        return by_name(self.driver.run(*RUN))

    def open(self, table: str) -> lading.Reader:
        cache = self.folder.parent / "reader"
        url = f"{self.url}/warehouse/{table}"
        return lading.open(url, store=f"{self.url}/manifests", s3=self.options, cache=cache)

    def rows(self, table: str, *columns: str) -> Counter[Any]:
        with self.open(table) as reader:
            found = reader.scan(columns=list(columns)).to_table()
        return Counter(zip(*(found.column(name).to_pylist() for name in columns), strict=True))

    def check(self) -> None:
        """All tables are what a rebuild would give."""
        all_ships = [ship for ships in self.ships.values() for ship in ships]
        heavy = Counter((imo, tonnes) for imo, _, tonnes in all_ships if tonnes >= 0)
        assert self.rows("ships", "imo", "tonnes") == heavy
        assert self.rows("calls", "at", "fee") == Counter((imo, t * self.rate) for imo, _, t in all_ships)
        fine = Counter((imo, tonnes) for imo, _, tonnes in all_ships if tonnes % 1000 != 999)
        assert self.rows("fees", "imo", "tonnes") == fine

    def latest(self) -> dict[int, Ship]:
        best: dict[int, Any] = {}
        for name, ships in self.ships.items():
            for imo, day, tonnes in ships:
                if tonnes >= 0:
                    ranked = (day, f"ships/{name}.json", tonnes)
                    best[imo] = max(best.get(imo, ranked), ranked)
        return {imo: (imo, day, tonnes) for imo, (day, _, tonnes) in best.items()}

    def parts(self) -> set[str]:
        """All that lie in the bucket, whoever knows of them."""
        found = ObjectStorage(f"{self.url}/warehouse", self.options).list()
        return {one.name for one in found if "/bucket=" in one.name}

    def listed(self) -> set[str]:
        """Those that readers know."""
        found = set()
        for table in TABLES:
            with self.open(table) as reader:
                found |= {f"{table}/{member.path}" for member in reader.scan()._members}
        return found

    def texts(self) -> Iterator[str]:
        """All that was printed, logged and recorded: by lading, the driver's Spark, master and workers."""
        yield from self.driver.said
        yield from self.cluster.logs()
        logs = (self.folder / ".lading_cache" / "spark", self.folder / "logs", self.events)
        for file in (self.driver.errors, *(file for folder in logs for file in folder.rglob("*"))):
            if file.is_file():
                yield file.read_text(errors="replace")


def ships(number: int, rows: int = ROWS) -> list[Ship]:
    tonnes = number % 5 * 1_000
    return [(n, (n * 7 + number) % 28 + 1, tonnes + n * 3 % 900) for n in range(number, rows + number)]


def first_run(world: Shipping) -> None:
    for number in range(FILES):
        world.put(str(number), ships(number))
    told = world.run()
    assert all(table["published"] for table in told.values())


def change(world: Shipping) -> None:
    world.put("1", [*ships(1, 20), (7_000, 3, 5)])
    assert world.run()["ships"]["verdicts"]["changed"] == 1


def delete(world: Shipping) -> None:
    world.delete("0")
    assert world.run()["calls"]["verdicts"]["vanished"] == 1


def quarantine(world: Shipping) -> None:
    world.put("bad", [(1, 1, -5), (2, 2, 1_999), *ships(77, 5)], bad=2)
    world.run()
    listed = world.driver.run("quarantine", "list")
    assert {(one["table"], one["rows"]) for one in listed["quarantine"]} == {("ships", 3), ("fees", 3)}
    shown = world.driver.run("quarantine", "show", "ships")["rows"]
    assert {row["line"] for row in shown} == {1, 8, 9}


def transform(world: Shipping) -> None:
    world.set_rate(3)
    world.run()


def shards(world: Shipping) -> None:
    latest = world.latest()
    with world.open("ships") as reader:
        found = reader.multi_get(sorted(latest))
        assert len(reader.shards()) == 3
    served = {imo: json.loads(value)["tonnes"] for imo, value in found.items()}
    assert served == {imo: tonnes for imo, _, tonnes in latest.values()}


def merge(world: Shipping) -> None:
    for table in ("ships", "calls"):
        told = world.driver.run("merge", table)
        assert told["spark_started"] and told["parts_removed"] > told["parts_added"]


def verify(world: Shipping) -> None:
    told = world.driver.run("verify", *TABLES, "--deep")
    assert told["ok"], told
    assert {name: table["checked"]["sources read again"] for name, table in by_name(told).items()} == {
        "ships": 3, "calls": 3, "fees": 3,
    }  # fmt: skip


def broken_transform(world: Shipping) -> None:
    """A failure in the workers, with all that Spark has to say of it."""
    world.set_rate(None)
    [error] = [one["error"] for one in world.driver.run(*RUN, code=1)["tables"] if "error" in one]
    assert error["kind"] == "TransformError"
    assert "rates.py, line 5: TypeError" in error["message"]
    world.set_rate(4)
    world.run()


def local_root(world: Shipping) -> None:
    (world.folder / "data").mkdir()
    (world.folder / "data" / "a.json").write_text('{"imo": 1, "day": "2024-01-01", "tonnes": 1}')
    error = world.driver.run("run", "local", code=1)["error"]
    assert error["kind"] == "SourceError" and error["file"] == "a.json"
    assert "is not there on the machine that reads it" in error["message"]
    assert "`root` must be the same path on every machine, or a bucket" in error["hint"]


def local_warehouse(world: Shipping) -> None:
    """Objects can be read by all, but where they write nobody else looks."""
    file = world.folder / "lading.yaml"
    before = file.read_text()
    file.write_text(before.replace(f"warehouse: {world.url}/warehouse", "warehouse: here"))
    error = world.driver.run("run", "fees", code=1)["error"]
    file.write_text(before)
    assert error["kind"] == "PipelineError" and "is not on this machine" in error["message"]
    assert "`warehouse` must be the same path on every machine, or a bucket" in error["hint"]


def lost_worker(world: Shipping) -> None:
    """A worker dies whose task has written its parts and not said so yet."""
    for number in range(FILES):
        world.put(f"more{number}", ships(number + 50))
    cluster, known = world.cluster, world.parts()
    for worker in cluster.workers:
        cluster.seen_by(worker, world.folder.parent).mkdir(parents=True, exist_ok=True)
        cluster.seen_by(worker, world.wait).touch()
    world.driver.ask(*RUN)
    deadline = time.monotonic() + PATIENCE
    while not (marked := [one for one in cluster.workers if cluster.seen_by(one, world.mark).exists()]):
        assert world.driver.alive() and time.monotonic() < deadline
        time.sleep(0.05)
    lost = world.parts() - known
    marked[0].kill()
    [other] = [worker for worker in cluster.workers if worker is not marked[0]]
    cluster.seen_by(other, world.wait).unlink()
    world.driver.answer()
    assert lost - world.listed() and not (lost - world.listed()) & world.parts()
    assert "Lost executor" in (world.folder / ".lading_cache" / "spark" / "spark.log").read_text()


def by_name(told: dict[str, Any]) -> dict[str, Any]:
    return {table["table"]: table for table in told["tables"]}


# In this order. LONG is for `make soak`.
STEPS: tuple[Callable[[Shipping], None], ...] = (
    first_run,
    shards,
    change,
    delete,
    quarantine,
    merge,
    verify,
    local_root,
)
LONG: tuple[Callable[[Shipping], None], ...] = (
    *STEPS,
    transform,
    broken_transform,
    local_warehouse,
    lost_worker,
    merge,
    shards,
    verify,
)


@pytest.fixture
def world(tmp_path: Path, s3_server: S3Server) -> Iterator[Shipping]:
    world = Shipping(tmp_path, s3_server)
    hidden = [Path(tempfile.gettempdir()), tmp_path]
    world.cluster = Cluster(tmp_path / "cluster", workers=2, hidden=hidden, hooks=world.hooks)
    try:
        world.configure(world.cluster.url)
        world.driver = Driver(world.folder, SETTINGS)
        try:
            yield world
        finally:
            world.driver.close()
    finally:
        world.cluster.close()


def test_a_cluster_that_shares_no_path_does_everything(world: Shipping) -> None:
    for worker in world.cluster.workers:
        assert not world.cluster.seen_by(worker, world.folder).exists()
    for step in LONG if SOAK else STEPS:
        started = time.monotonic()
        step(world)
        world.check()
        print(f"{step.__name__}: {time.monotonic() - started:.1f} s")
    # Spark's events have every plan as `explain` shows it; tasks have failed, with all that is said of that.
    texts = list(world.texts())
    for shown in ("MapInArrow", "Spark Executor Command"):
        assert any(shown in text for text in texts), shown
    for secret in (S3Server.secret_key, S3Server.access_key):
        assert not [text[:200] for text in texts if secret in text]
