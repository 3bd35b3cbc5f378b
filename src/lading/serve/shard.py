"""The shards of a table that is served by key: which of them have to be built, and which are shared.

Decided against the snapshot that readers see, whatever happened since, so a run that died between its
commit and its publish is made good by the next one. No rows changed and the same `serve:`: nothing is
built and Spark stays asleep.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec
import pyarrow as pa

from lading import clock
from lading.config.project import Config, TableConfig
from lading.config.serve import Serve
from lading.config.stores import BUCKETS, scheme_of
from lading.errors import ManifestParseError, PartError
from lading.layout.table import is_shard_of
from lading.log.table import Table
from lading.model import Column, Member, SnapshotRef, StartSpark
from lading.serve.build.place import ShardPlace
from lading.serve.spec import ServeSpec, refuse_misfits, resolve, schema_of
from lading.snapshots.manifest import BuildMeta, ShardMeta, read_snapshot
from lading.snapshots.opening import open_manifest
from lading.snapshots.runs import RunOutput
from lading.snapshots.stores.protocol import ManifestStore
from lading.state.members import MemberStore
from lading.storage.place import storage_of
from lading.watch import Watch
from lading.words import count_words

if TYPE_CHECKING:  # what encodes rows takes long to import, and most runs have none to encode
    from lading.serve.build.rows import PartRows

_HERE = 64 << 20  # bytes of parts whose keys are looked at without Spark
_PER_TASK = 32 << 20  # bytes of parts that one task reads
_MOST_TASKS = 2_000  # that build shards


@dataclass(frozen=True, slots=True)
class Served:
    """A table's shards, ready to be listed in a manifest."""

    spec: ServeSpec
    place: ShardPlace
    shards: tuple[ShardMeta, ...]  # those with rows
    built: int = 0  # in this run; the others are shared with the snapshot before
    seconds: float = 0.0
    failures: tuple[str, ...] = field(default=())  # why readers must not see it

    def described(self, meta: BuildMeta) -> BuildMeta:
        """The build metadata of a snapshot with these shards."""
        key = self.spec.key
        return msgspec.structs.replace(
            meta,
            num_dbs=self.spec.num_dbs,
            s3_prefix=self.place.url or "",
            key_col=",".join(key.columns),
            sharding=self.spec.router.sharding,
            format_version=3 if self.spec.router.sharding.routing_values is not None else 2,
            key_encoding=key.encoding,
            shard_prefix=self.place.prefix,
            db_path_template=self.place.template,
            custom=meta.custom | self._custom(),
        )

    def urls(self) -> set[str]:
        return {shard.db_url for shard in self.shards if shard.db_url is not None}

    def _custom(self) -> dict[str, Any]:
        return {
            "serve": self.spec.described(),
            "durations": {"shards_ms": int(self.seconds * 1000)},
            "statistics": {
                "shards_built": self.built,
                "shards_shared": sum(1 for shard in self.shards if not self._is_own(shard)),
                "keys": sum(shard.row_count for shard in self.shards),
                "bytes": sum(shard.db_bytes or 0 for shard in self.shards),
            },
        }

    def _is_own(self, shard: ShardMeta) -> bool:
        return is_shard_of(shard.db_url or "", self.place.run_id)


def refuse_unservable(cfg: TableConfig, columns: tuple[Column, ...]) -> None:
    """What `serve:` asks for and the table can't have, said before Spark starts: of a table whose columns
    are known by then, which a transform may change."""
    serve = cfg.serve
    if serve is None:
        return
    if cfg.transform is None:
        refuse_misfits(serve, schema_of(columns), cfg.name)


def shard(
    config: Config,
    cfg: TableConfig,
    table: Table,
    run_id: str,
    store: ManifestStore,
    current: SnapshotRef | None,
    *,
    session: StartSpark,
    watch: Watch,
    kept: set[str],
) -> Served | None:
    """The shards of the table as the log has it; None if it isn't served by key. `current` is what readers
    see; `kept` are this run's files that stay, should building fail."""
    serve, state = cfg.serve, table.state
    if serve is None:
        return None
    watch.phase(cfg.name, "shard")
    started = clock.monotonic()
    spec = resolve(serve, state.schema, state.row_count(), state.order_by, table=cfg.name)
    place = _place(config, cfg.name, serve, table, run_id)
    base = _base(table, store, current, spec)
    if base is None:
        old: dict[int, ShardMeta] = {}
        dirty = set(range(spec.num_dbs))
    else:
        old = {one.db_id: one for one in place.existing(base.shards)}
        lost = {one.db_id for one in base.shards} - old.keys()
        dirty = lost | base.touched(table, spec, session)
    shared = tuple(one for db_id, one in old.items() if db_id not in dirty)
    if not dirty:
        return Served(spec, place, shared, seconds=clock.monotonic() - started)
    try:
        built, failures = _build(
            table, spec, place, sorted(dirty), session(), partial(watch.progress, cfg.name)
        )
    except BaseException:
        place.drop_losers(kept)
        raise
    shards = tuple(sorted((*shared, *built), key=lambda one: one.db_id))
    return Served(spec, place, shards, len(built), clock.monotonic() - started, failures)


@dataclass(frozen=True, slots=True)
class _Base:
    """The snapshot that readers see, when its shards can be shared."""

    shards: tuple[ShardMeta, ...]
    parts: tuple[tuple[PartRows, ...], tuple[PartRows, ...]]  # rows that went, rows that came
    bytes: int

    def touched(self, table: Table, spec: ServeSpec, session: StartSpark) -> set[int]:
        gone, come = self.parts
        try:
            return _touched(table, spec, (*gone, *come), self.bytes, session)
        except PartError as error:
            lost = {part.path for part in gone}
            if error.file is None or not any(error.file.endswith(f"/{path}") for path in lost):
                raise
            return set(range(spec.num_dbs))  # a part that left is gone for good: nobody knows its keys now


def _base(table: Table, store: ManifestStore, current: SnapshotRef | None, spec: ServeSpec) -> _Base | None:
    if current is None:
        return None
    from lading.serve.build.rows import changed_rows, changed_sources

    state = table.state
    try:
        connection = open_manifest(store, current.ref)
    except ManifestParseError:
        return None
    members = MemberStore(connection, table.place)
    try:
        snapshot = read_snapshot(connection)
        serve = snapshot.meta.custom.get("serve")
        mine = snapshot.meta.custom.get("table_id") == table.table_id
        if not mine or not isinstance(serve, dict) or serve.get("spec") != spec.id:
            return None
        old = [source for source, _ in members.sources()]
        sources = changed_sources(old, (source for source, _ in state.sources().values()))
        changes = changed_rows(members.members(None), state.candidates(None), sources)
        return _Base(snapshot.shards, (changes.gone, changes.come), changes.bytes)
    except ManifestParseError:
        return None
    finally:
        members.close()


def _touched(
    table: Table, spec: ServeSpec, parts: tuple[PartRows, ...], size: int, session: StartSpark
) -> set[int]:
    schema, folder = table.state.schema, table.place
    if size <= _HERE:
        from lading.serve.build.rows import shards_touched

        return set(shards_touched(folder, parts, pa.ipc.read_schema(pa.py_buffer(schema)), spec.router))
    from lading.serve.build.on_spark import touched_on_spark

    return touched_on_spark(session(), folder, parts, schema, spec.router)


def _build(
    table: Table,
    spec: ServeSpec,
    place: ShardPlace,
    dirty: list[int],
    spark: Any,
    tell: Callable[[str], None],
) -> tuple[tuple[ShardMeta, ...], tuple[str, ...]]:
    from lading.serve.build.on_spark import build_on_spark, check_rows  # pyspark: only where it is used
    from lading.serve.build.task import ShardJob

    job = ShardJob(
        table_dir=table.place,
        schema=table.state.schema,
        spec=spec,
        place=place,
        shards=tuple(dirty),
        tasks=min(len(dirty), _MOST_TASKS),
        parts=_groups(table, spec),
    )
    built = build_on_spark(spark, job, tell)
    if len(dirty) == spec.num_dbs:
        check_rows(built, table.state.row_count())
    failures: tuple[str, ...] = ()
    if built.twice and not spec.latest:
        some = ", ".join(built.named[:5])
        more = " and more" if built.twice > len(built.named[:5]) else ""
        rows, key = count_words(built.twice, "row has", "rows have"), ", ".join(spec.key.columns)
        failures = (f"serve: {rows} the same {key} as another row ({some}{more})",)
    return tuple(one for one in built.shards if one.row_count), failures


def _groups(table: Table, spec: ServeSpec) -> tuple[tuple[PartRows, ...], ...]:
    """All parts, in groups for one task each."""
    keys = {source.id: key for key, (source, _) in table.state.sources().items()} if spec.latest else {}
    groups: list[list[PartRows]] = [[]]
    size = 0
    for member in table.state.candidates(None):
        if groups[-1] and size + member.bytes > _PER_TASK:
            groups.append([])
            size = 0
        groups[-1].append(_part(member, keys))
        size += member.bytes
    return tuple(tuple(group) for group in groups)


def _part(member: Member, keys: dict[int, str]) -> PartRows:
    from lading.serve.build.rows import PartRows

    known = {number: keys[number] for number in _numbers(member.sources) if number in keys}
    return PartRows(member.path, without=member.minus, sources=known)


def _numbers(sources: Iterable[tuple[int, int]]) -> list[int]:
    return [number for number, _ in sources]


def output_of(config: Config, cfg: TableConfig, table: Table) -> RunOutput:
    """Where a run's shards go, for its record."""
    url = _url(config, cfg.name, table) or ""
    return RunOutput(url, cfg.serve.shard_prefix, cfg.serve.db_path_template) if cfg.serve else RunOutput(url)


def _place(config: Config, name: str, serve: Serve, table: Table, run_id: str) -> ShardPlace:
    url = _url(config, name, table)
    return ShardPlace(
        table_dir=str(table.place),
        run_id=run_id,
        prefix=serve.shard_prefix,
        template=serve.db_path_template,
        url=url,
        options=dict(config.s3) if url is not None else {},
    )


def _url(config: Config, name: str, table: Table) -> str | None:
    """With the manifests if those are in a bucket, so that readers elsewhere reach both; else with the
    table's parts, None if those are in a folder."""
    store = config.store
    if store is not None and scheme_of(store) in BUCKETS:
        return f"{store.rstrip('/')}/{name}"
    return storage_of(table.place).prefix.rstrip("/") or None
