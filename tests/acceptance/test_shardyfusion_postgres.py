"""lading and shardyfusion on the same three tables: each works with what the other made and inserted."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from support.served import ServedProject
from support.servers import PostgresServer
from support.shardyfusion import Build, Writer, into_folder

import lading
from lading.config.file import load as load_config
from lading.config.stores import PostgresNames
from lading.errors import PublishManifestError
from lading.run import plan_tables
from lading.snapshots.history import history
from lading.snapshots.manifest import BuildMeta, ShardMeta, build_snapshot, parse_snapshot
from lading.snapshots.stores.postgres.store import PostgresStore
from lading.upkeep.merge import merge_table
from lading.upkeep.rollback import publish_run
from lading.upkeep.status import status

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# shardyfusion's own statements.
SEED_TABLES = (
    """CREATE TABLE IF NOT EXISTS {builds} (
      run_id TEXT PRIMARY KEY, created_at TIMESTAMPTZ NOT NULL DEFAULT NOW(), num_dbs INTEGER NOT NULL,
      s3_prefix TEXT NOT NULL, key_col TEXT NOT NULL DEFAULT '_key',
      db_path_template TEXT NOT NULL DEFAULT 'db={{db_id:05d}}', shard_prefix TEXT NOT NULL DEFAULT 'shards',
      key_encoding TEXT NOT NULL DEFAULT 'u64be', sharding JSONB NOT NULL,
      custom JSONB NOT NULL DEFAULT '{{}}')""",
    """CREATE TABLE IF NOT EXISTS {shards} (
      run_id TEXT NOT NULL REFERENCES {builds}(run_id), db_id INTEGER NOT NULL, db_url TEXT,
      attempt INTEGER NOT NULL DEFAULT 0, row_count INTEGER NOT NULL DEFAULT 0, checkpoint_id TEXT,
      min_key JSONB, max_key JSONB, writer_info JSONB, PRIMARY KEY (run_id, db_id))""",
    """CREATE TABLE IF NOT EXISTS {pointer} (
      updated_at TIMESTAMPTZ NOT NULL DEFAULT NOW(), manifest_ref TEXT NOT NULL)""",
    "CREATE INDEX IF NOT EXISTS idx_{pointer}_updated_at ON {pointer} (updated_at DESC)",
)
# What lading 0.1 made.
OLD_TABLES = (
    """CREATE TABLE {builds} (
      run_id text PRIMARY KEY, created_at timestamptz NOT NULL, sequence bigint NOT NULL,
      num_dbs bigint, format_version bigint, key_col text, key_encoding text, sharding json, custom json,
      manifest_content_type text NOT NULL, payload bytea NOT NULL)""",
    """CREATE TABLE {shards} (
      run_id text NOT NULL REFERENCES {builds} ON DELETE CASCADE, db_id bigint NOT NULL, db_url text,
      attempt bigint NOT NULL, row_count bigint NOT NULL, min_key json, max_key json, checkpoint_id text,
      writer_info json NOT NULL, db_bytes bigint NOT NULL, PRIMARY KEY (run_id, db_id))""",
    """CREATE TABLE {pointer} (
      updated_at timestamptz NOT NULL, run_id text NOT NULL, manifest_ref text NOT NULL,
      manifest_content_type text NOT NULL, format_version bigint NOT NULL, sequence bigint NOT NULL,
      held boolean NOT NULL, swap_id text NOT NULL)""",
    "CREATE UNIQUE INDEX ON {pointer} (updated_at DESC)",
    "CREATE UNIQUE INDEX ON {builds} (created_at DESC)",
)
COLUMNS = {
    "builds": [
        ("run_id", "text", "NO", None),
        ("created_at", "timestamp with time zone", "NO", "now()"),
        ("num_dbs", "integer", "NO", None),
        ("s3_prefix", "text", "NO", None),
        ("key_col", "text", "NO", "'_key'::text"),
        ("db_path_template", "text", "NO", "'db={db_id:05d}'::text"),
        ("shard_prefix", "text", "NO", "'shards'::text"),
        ("key_encoding", "text", "NO", "'u64be'::text"),
        ("sharding", "jsonb", "NO", None),
        ("custom", "jsonb", "NO", "'{}'::jsonb"),
    ],
    "shards": [
        ("run_id", "text", "NO", None),
        ("db_id", "integer", "NO", None),
        ("db_url", "text", "YES", None),
        ("attempt", "integer", "NO", "0"),
        ("row_count", "integer", "NO", "0"),
        ("checkpoint_id", "text", "YES", None),
        ("min_key", "jsonb", "YES", None),
        ("max_key", "jsonb", "YES", None),
        ("writer_info", "jsonb", "YES", None),
    ],
    "pointer": [
        ("updated_at", "timestamp with time zone", "NO", "now()"),
        ("manifest_ref", "text", "NO", None),
    ],
}


class Seed:
    """shardyfusion's side of the three tables: its statements, on a connection of its own."""

    def __init__(self, connection: psycopg.Connection[Any], prefix: str) -> None:
        self.connection = connection
        self.names = {what: f"{prefix}_ships_{what}" for what in ("builds", "shards", "pointer")}

    def make(self, statements: tuple[str, ...] = SEED_TABLES) -> None:
        for statement in statements:
            self.connection.execute(statement.format(**self.names))

    def publish(self, build: Build) -> None:
        with self.connection.transaction():
            self.connection.execute(
                f"INSERT INTO {self.names['builds']} (run_id, created_at, num_dbs, s3_prefix, key_col,"
                " db_path_template, shard_prefix, key_encoding, sharding, custom)"
                " VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s) ON CONFLICT (run_id) DO UPDATE SET"
                " created_at = EXCLUDED.created_at, sharding = EXCLUDED.sharding",
                (
                    build.run_id, build.created_at.isoformat(), build.num_dbs, build.s3_prefix, build.key_col,
                    build.db_path_template, build.shard_prefix, build.key_encoding,
                    json.dumps(build.sharding), json.dumps(build.custom),
                ),
            )  # fmt: skip
            self.connection.execute(f"DELETE FROM {self.names['shards']} WHERE run_id = %s", (build.run_id,))
            with self.connection.cursor() as cursor:
                cursor.executemany(
                    f"INSERT INTO {self.names['shards']} (run_id, db_id, db_url, attempt, row_count,"
                    " checkpoint_id, min_key, max_key, writer_info)"
                    " VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s)",
                    [
                        (
                            build.run_id, one["db_id"], one["db_url"], one["attempt"], one["row_count"],
                            one["checkpoint_id"], json.dumps(one["min_key"]), json.dumps(one["max_key"]),
                            json.dumps(one["writer_info"]),
                        )
                        for one in build.shards
                    ],
                )  # fmt: skip
            self._point(build.run_id)

    def set_current(self, run_id: str) -> None:
        self._point(run_id)

    def _point(self, run_id: str) -> None:
        self.connection.execute(f"INSERT INTO {self.names['pointer']} (manifest_ref) VALUES (%s)", (run_id,))

    def current(self) -> Any:
        query = (
            f"SELECT manifest_ref, updated_at FROM {self.names['pointer']} ORDER BY updated_at DESC LIMIT 1"
        )
        return self.connection.execute(query).fetchone()

    def load(self, run_id: str) -> tuple[Any, list[Any]]:
        build = self.connection.execute(
            "SELECT run_id, num_dbs, s3_prefix, key_col, db_path_template, shard_prefix, key_encoding,"
            f" sharding, custom FROM {self.names['builds']} WHERE run_id = %s",
            (run_id,),
        ).fetchone()
        shards = self.connection.execute(
            "SELECT db_id, db_url, attempt, row_count, checkpoint_id, min_key, max_key, writer_info"
            f" FROM {self.names['shards']} WHERE run_id = %s ORDER BY db_id",
            (run_id,),
        ).fetchall()
        return build, shards

    def columns(self, what: str) -> list[tuple[Any, ...]]:
        query = (
            "SELECT column_name, data_type, is_nullable, column_default FROM information_schema.columns"
            " WHERE table_name = %s ORDER BY ordinal_position"
        )
        return self.connection.execute(query, (self.names[what],)).fetchall()


@pytest.fixture
def prefix() -> str:
    return f"p{uuid.uuid4().hex[:8]}"


@pytest.fixture
def seed(postgres_server: PostgresServer, prefix: str) -> Iterator[Seed]:
    with psycopg.connect(postgres_server.url, autocommit=True) as connection:
        yield Seed(connection, prefix)


@pytest.fixture
def store(postgres_server: PostgresServer, prefix: str) -> PostgresStore:
    return PostgresStore(postgres_server.url, "ships", PostgresNames(prefix=prefix))


def payload(run_id: str) -> bytes:
    shard = ShardMeta(
        db_id=1, db_url="u/1", attempt=2, row_count=5, min_key=1, max_key="z", checkpoint_id="c", db_bytes=9
    )
    meta = BuildMeta(
        run_id=run_id, created_at=datetime(2026, 1, 1, tzinfo=UTC), num_dbs=4, s3_prefix="s3://b/p",
        key_col="imo", custom={"a": [1]},
    )  # fmt: skip
    return build_snapshot(meta, [shard])


@pytest.mark.acceptance("S25")
def test_the_tables_have_the_columns_types_and_defaults_of_the_seed(store: PostgresStore, seed: Seed) -> None:
    store.publish(payload("r1"), "r1", sequence=1)
    for what, wanted in COLUMNS.items():
        found = seed.columns(what)
        assert found[: len(wanted)] == wanted
        for name, _, nullable, default in found[len(wanted) :]:
            assert nullable == "YES" or default is not None, f"{what}.{name} keeps the seed from inserting"
    [index] = [
        text
        for (text,) in seed.connection.execute(
            "SELECT indexdef FROM pg_indexes WHERE tablename = %s", (seed.names["pointer"],)
        )
    ]
    assert index.endswith("(updated_at DESC)") and "UNIQUE" not in index


@pytest.mark.acceptance("S25")
@pytest.mark.parametrize("made_by", ["lading", "shardyfusion", "lading 0.1"])
def test_each_reads_what_the_other_inserted_whoever_made_the_tables(
    store: PostgresStore, seed: Seed, tmp_path: Path, made_by: str
) -> None:
    if made_by != "lading":
        seed.make(SEED_TABLES if made_by == "shardyfusion" else OLD_TABLES)
    store.publish(payload("ours"), "ours", sequence=7)
    seed.make()  # as its store does whenever it starts
    assert seed.current()[0] == "ours"
    build, shards = seed.load("ours")
    assert build[:7] == ("ours", 4, "s3://b/p", "imo", "db={db_id:05d}", "shards", "u64be")
    assert build[7]["hash_algorithm"] == "xxh3_64" and build[8] == {"a": [1]}
    assert shards == [(1, "u/1", 2, 5, "c", 1, "z", parse_info(shards[0][7]))]

    values = {key: b"%d" % key for key in range(50)}
    theirs = Writer("s3://b/ships", into_folder(tmp_path)).build(values)
    seed.publish(theirs)
    current = store.load_current()
    assert current is not None and (current.ref, current.run_id, current.held) == (
        theirs.run_id, theirs.run_id, False,
    )  # fmt: skip
    parsed = parse_snapshot(store.load_manifest(current.ref), check=True)
    assert (parsed.meta.num_dbs, parsed.meta.format_version, len(parsed.shards)) == (4, 2, 4)
    with lading.open(tmp_path, store) as reader:
        assert reader.multi_get(values) == values and reader.health()["status"] == "ok"
    assert {one.run_id for one in history(store)} == {"ours", theirs.run_id}
    assert store.load_manifest("ours") == payload("ours")

    seed.set_current("ours")
    current = store.load_current()
    assert current is not None and (current.ref, current.sequence, current.held) == ("ours", 7, False)
    moved = store.set_current(theirs.run_id)
    assert moved.held and store.load_current() == moved and seed.current()[0] == theirs.run_id
    assert store.delete_manifest("ours") and not store.delete_manifest(theirs.run_id)
    assert seed.load("ours") == (None, [])


def parse_info(found: Any) -> Any:
    assert set(found) == {"stage_id", "task_attempt_id", "attempt", "duration_ms"}
    return found


@pytest.mark.acceptance("S25")
def test_a_reader_of_tables_that_the_seed_made_changes_nothing_about_them(
    postgres_server: PostgresServer, store: PostgresStore, seed: Seed, tmp_path: Path
) -> None:
    seed.make()
    tokens = {"routing_values": ["eu", "us"], "cel_expr": "region", "cel_columns": {"region": "string"}}
    writer = Writer("s3://b/ships", into_folder(tmp_path), num_dbs=2, **tokens)  # type: ignore[arg-type]
    build = writer.build({1: b"one", 2: b"two"}, shard_of=lambda key: int(key) - 1)
    build.custom = {"sequence": "theirs", "owner": "team"}
    seed.publish(build)
    before = {what: seed.columns(what) for what in COLUMNS}
    with lading.open(tmp_path, store) as reader:
        assert reader.get(2, context={"region": "us"}) == b"two"
        assert reader._view.keys.meta.format_version == 3
    assert [one.run_id for one in store.list_manifests()] == [build.run_id]
    assert {what: seed.columns(what) for what in COLUMNS} == before == COLUMNS


def test_what_lading_0_1_published_is_read_before_anything_is_changed_and_after(
    store: PostgresStore, seed: Seed
) -> None:
    seed.make(OLD_TABLES)
    old, at = payload("old"), datetime(2026, 1, 1, tzinfo=UTC)
    seed.connection.execute(
        f"INSERT INTO {seed.names['builds']} (run_id, created_at, sequence, manifest_content_type, payload)"
        " VALUES ('old', %s, 3, 'application/x-sqlite3', %b)",
        (at, old),
    )
    seed.connection.execute(
        f"INSERT INTO {seed.names['pointer']} VALUES"
        " (%s, 'old', 'old', 'application/x-sqlite3', 1, 3, true, 'x')",
        (at,),
    )
    current = store.load_current()
    assert current is not None
    assert (current.ref, current.sequence, current.held, current.swap_id) == ("old", 3, True, "x")
    assert store.load_manifest("old") == old
    assert store.publish(payload("new"), "new", sequence=4).outcome == "held"
    assert store.load_current() == current and store.load_manifest("old") == old
    assert store.set_current("new", hold=False).ref == "new"


@pytest.mark.acceptance("S26")
@pytest.mark.parametrize("ends", ["commit", "rollback"])
def test_a_publish_is_part_of_the_transaction_whose_connection_is_handed_in(
    postgres_server: PostgresServer, store: PostgresStore, seed: Seed, ends: str
) -> None:
    store.publish(payload("old"), "old", sequence=1)
    own = f"audit_{uuid.uuid4().hex[:8]}"
    seed.connection.execute(f"CREATE TABLE {own} (run text)")
    with psycopg.connect(postgres_server.url) as connection:
        published = store.publish(payload("new"), "new", sequence=2, connection=connection)
        assert published.outcome == "current"
        connection.execute(f"INSERT INTO {own} VALUES ('new')")
        assert [one.run_id for one in store.list_manifests()] == ["old"]
        assert seed.current()[0] == "old"
        connection.commit() if ends == "commit" else connection.rollback()
    seen = "new" if ends == "commit" else "old"
    assert seed.current()[0] == seen
    audited = seed.connection.execute(f"SELECT count(*) FROM {own}").fetchone()
    assert audited == (int(ends == "commit"),)


def test_a_publish_that_fails_undoes_itself_and_leaves_the_callers_transaction_alone(
    postgres_server: PostgresServer, store: PostgresStore, seed: Seed
) -> None:
    store.publish(payload("r1"), "r1", sequence=1)
    own = f"audit_{uuid.uuid4().hex[:8]}"
    with psycopg.connect(postgres_server.url) as connection:
        connection.execute(f"CREATE TABLE {own} (run text)")
        with pytest.raises(PublishManifestError, match="with different content"):
            store.publish(b"another", "r1", sequence=2, connection=connection)
        connection.execute(f"INSERT INTO {own} VALUES ('still here')")
    assert seed.connection.execute(f"SELECT count(*) FROM {own}").fetchone() == (1,)
    with psycopg.connect(postgres_server.url, autocommit=True) as connection:
        with pytest.raises(PublishManifestError, match="in no transaction"):
            store.publish(payload("r2"), "r2", sequence=2, connection=connection)
        with connection.transaction():
            store.publish(payload("r2"), "r2", sequence=2, connection=connection)
    assert seed.current()[0] == "r2"


def test_rows_are_dated_by_the_servers_clock_as_the_seeds_are(
    store: PostgresStore, seed: Seed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A writer whose clock is ahead must not keep what others point at from being current."""
    monkeypatch.setattr("lading.clock.now", lambda: datetime(2099, 1, 1, tzinfo=UTC))
    store.publish(payload("r1"), "r1", sequence=1)
    store.publish(payload("r2"), "r2", sequence=2)
    seed.set_current("r1")
    current = store.load_current()
    assert current is not None and current.ref == "r1"


@pytest.mark.acceptance("S25")
def test_a_pointer_that_somebody_else_moved_stays_until_rows_change(
    spark: SparkSession, postgres_server: PostgresServer, seed: Seed, prefix: str, tmp_path: Path
) -> None:
    """It is a rollback that doesn't hold."""
    head = f"store: {postgres_server.url}\npostgres: {{prefix: {prefix}}}\n"
    project = ServedProject(tmp_path, head=head)
    project.put("a.csv", [(1, 1, "one"), (2, 1, "two")])
    first = project.run().run_id
    project.put("b.csv", [(3, 1, "three")])
    second = project.run().run_id
    seed.set_current(first)
    before = seed.connection.execute(f"SELECT count(*) FROM {seed.names['pointer']}").fetchone()

    [plan] = plan_tables(load_config(tmp_path))
    assert plan.idle and "someone else moved the pointer" in plan.notes[-1]
    assert "someone else moved the pointer" in (status(load_config(tmp_path))[0].note or "")
    report = project.run()
    assert not report.spark_started and not report.tables[0].published
    assert f"lading publish ships --run {second}" in report.tables[0].notes[-1]
    assert seed.connection.execute(f"SELECT count(*) FROM {seed.names['pointer']}").fetchone() == before
    assert seed.current()[0] == first

    publish_run(load_config(tmp_path), "ships", second)
    assert seed.current()[0] == second and project.run().tables[0].notes == ()

    theirs = Writer("s3://b/ships", into_folder(tmp_path / "theirs")).build({9: b"nine"})
    seed.publish(theirs)
    report = project.run()
    assert not report.spark_started and seed.current()[0] == theirs.run_id
    assert "someone else moved the pointer" in report.tables[0].notes[-1]

    project.put("c.csv", [(4, 1, "four")])
    report = project.run()
    assert report.tables[0].published and seed.current()[0] == report.run_id
    store = PostgresStore(postgres_server.url, "ships", PostgresNames(prefix=prefix))
    with lading.open(project.table, store) as reader:
        assert reader.get(4, decode=True)["name"] == "four"

    seed.set_current(first)
    merged = merge_table(load_config(tmp_path), "ships")
    assert merged.published and f"had moved the pointer to run {first}" in (merged.note or "")
