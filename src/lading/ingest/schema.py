"""A table's schema: the one that is pinned, the one that its files give, and whether it is stale.

Under a policy that follows the files (`columns: add`, `types: widen` or `quarantine`) it is a function of the
evidence of the files that are there, of what people wrote, and of the policy: every run works it out
anew, and the schema file shows it. Otherwise only `discover-schema` changes the columns of a schema file that
is there; a run pins the first one, and says when all files are read under it and it is fresh again.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from typing import TYPE_CHECKING

from lading.config.project import Config, TableConfig
from lading.errors import SourceError
from lading.formats.fixed_width.spec import layout_columns, load_layout
from lading.ingest.plan import TablePlan
from lading.layout.project import schema_file
from lading.log.state import TableState
from lading.model import DELIMITERS, TYPED, Column, FoundFile, Layout
from lading.sources.found import FoundFiles, keys_of
from lading.sources.manifest import SourceManifest
from lading.sources.names import columns_from_name, name_columns
from lading.sources.schema import (
    IN_CONFIG,
    TableSchema,
    combined_hash,
    keyed_hash,
    load_schema,
    positional,
    save_schema,
    with_rules,
)
from lading.words import count_words

if TYPE_CHECKING:
    from lading.formats.evidence import FileEvidence
    from lading.formats.infer.look import LookSpec
    from lading.ingest.evidence import Found
    from lading.ingest.table_run import TableRun

FOUND_HASH = "found_hash"  # in `lading` of manifest/<table>.json: the combined hash of the files it shows
BUDGET = 512 << 20  # bytes that a run looks at to pin a schema once and for all
_ASKED = 8  # files that are asked why they hold no record


@dataclass(frozen=True, slots=True)
class Followed:
    """The schema that the files give, under a policy that follows them."""

    schema: TableSchema
    evidence: Mapping[str, FileEvidence]  # of the files that are there, by key
    fresh: Mapping[str, FileEvidence] = field(default_factory=dict)  # of those, what the log doesn't have yet
    changes: tuple[str, ...] = ()  # against the columns that the table has, for people

    @property
    def columns(self) -> tuple[Column, ...]:
        return self.schema.columns


def layout_of(config: Config, cfg: TableConfig) -> Layout | None:
    return load_layout(config.project, cfg.spec) if cfg.spec is not None else None


def pinned_columns(config: Config, cfg: TableConfig) -> tuple[Column, ...] | None:
    """The columns of the schema file; those of fixed-width tables are the spec's."""
    layout = layout_of(config, cfg)
    if layout is not None:
        return _with_names(cfg, layout)
    schema = load_schema(config.schema_file(cfg.name))
    return with_rules(schema.columns, cfg.rules) if schema is not None else None


def is_as_configured(config: Config, cfg: TableConfig) -> bool:
    """Whether the schema file has no type that only lading.yaml gave, and gives no more."""
    schema = load_schema(config.schema_file(cfg.name)) if follows(cfg) else None
    known = {rule.name for rule in cfg.rules if rule.type is not None}
    return schema is None or all(name in known for name, why in schema.because.items() if why == IN_CONFIG)


def follows(cfg: TableConfig) -> bool:
    """Whether the table's columns follow its files."""
    return cfg.spec is None and cfg.policy.follows


def look_spec(cfg: TableConfig, pinned: TableSchema | None, *, limit: int | None = None) -> LookSpec:
    """How files are looked at. Those without a header have the names that people gave them."""
    from lading.formats.infer.look import LookSpec  # pyarrow: only when there is something to infer

    written = pinned.written if pinned is not None else ()
    headless = cfg.read_options.get("header") is False
    return LookSpec(
        cfg.format,
        cfg.read_options,
        names=_headless_names(cfg, pinned) if headless else None,
        limit=limit,
        naming=cfg.naming.knowing(column.name for column in written),
        rules=cfg.rules,
    )


def _headless_names(cfg: TableConfig, pinned: TableSchema | None) -> tuple[str, ...] | None:
    """Those of the schema, or of lading.yaml. None: they are numbered, as many as there are."""
    from_names = name_columns(cfg.columns_from_name)
    listed = pinned.columns if pinned is not None else positional(cfg.rules)
    told = tuple(one.name for one in listed if one.name not in from_names)
    numbered = tuple(f"column_{number}" for number in range(1, len(told) + 1))
    return None if told == numbered else told


def infer_schema(
    run: TableRun, found: Sequence[FoundFile], *, now: str, full_scan: bool = False
) -> TableSchema:
    """The schema that the files give; types that a person wrote stay theirs. A file that can't be read is
    refused, or under `on_bad: quarantine` passed over."""
    from lading.ingest.evidence import look_at

    config, cfg = run.config, run.cfg
    if cfg.spec is not None:
        return _of_spec(config, cfg, found, now)
    limit = None if full_scan or cfg.policy.follows else _limit(found)
    old = load_schema(config.schema_file(cfg.name))
    asked = _named(cfg, found)
    looked = look_at(run, asked, look_spec(cfg, old, limit=limit))
    evidence = _told(cfg, looked)
    return _settled(run, None, old, evidence, found, now=now, whole=limit is None, looked=looked)


def follow(
    run: TableRun,
    found: Sequence[FoundFile],
    known: Mapping[str, FileEvidence],
    *,
    table: Sequence[Column] | None,
    now: str,
) -> Followed:
    """The schema that the files give, those not looked at whose evidence is `known`. `table` are the columns
    that the table has by now."""
    from lading.ingest.evidence import NOTHING, look_at

    config, cfg = run.config, run.cfg
    old = load_schema(config.schema_file(cfg.name))
    asked = _named(cfg, found)
    new = look_at(run, [file for file in asked if file.key not in known], look_spec(cfg, old))
    fresh = {key: NOTHING if isinstance(one, SourceError) else one for key, one in new.items()}
    evidence = {file.key: fresh[file.key] if file.key in fresh else known[file.key] for file in asked}
    schema = _settled(run, old, old, evidence, found, now=now, looked=new)
    return Followed(schema, evidence, fresh, _changes(table, schema, evidence) if table is not None else ())


def _settled(
    run: TableRun,
    pinned: TableSchema | None,
    old: TableSchema | None,
    evidence: Mapping[str, FileEvidence],
    found: Sequence[FoundFile],
    *,
    now: str,
    whole: bool = True,
    looked: Found | None = None,
) -> TableSchema:
    """What the evidence gives. Of `pinned`, if there is one, the policy leaves names or types as they are; of
    the `old` one stays what a person wrote."""
    from lading.formats.infer.columns import refuse_taken
    from lading.formats.infer.settle import settle

    cfg, policy = run.cfg, run.cfg.policy
    told = sorted(evidence.items())
    seen = settle(
        told,
        cfg.format,
        cfg.read_options,
        types=policy.types_of,
        rules=cfg.rules,
        join_types=policy.types != "strict" or cfg.format not in TYPED,
    )
    names = name_columns(cfg.columns_from_name)
    refuse_taken(seen.columns, names, told)
    before = {column.name: column for column in old.columns} if old is not None else {}
    configured = {rule.name: Column(rule.name, rule.type) for rule in cfg.rules if rule.type is not None}
    written = {column.name: column for column in (old.written if old is not None else ())} | configured
    if not seen.columns:
        if old is None:
            raise _no_columns(run, found, looked or {})
        looked_at = _looked_at_words(seen.files, seen.rows)
        return replace(old, combined_hash=found_hash(found), looked_at=looked_at)
    order = [column.name for column in seen.columns]
    if pinned is not None and not policy.adds:
        order = [column.name for column in pinned.columns if column.name not in names]
    settled = {column.name: column for column in seen.columns}
    columns: list[Column] = []
    because: dict[str, str] = {}
    for name in [*order, *(name for name in written if name not in order and name not in names)]:
        stays = name in written or name not in settled
        if pinned is not None and policy.types_of(name) == "strict":
            stays = stays or name in before
        columns.append((written.get(name) or before[name]) if stays else settled[name])
        why = old.because.get(name, "") if stays and old is not None else seen.because.get(name, "")
        why = IN_CONFIG if name in configured else why
        if why:
            because[name] = why
    for name in names:
        columns.append(written.get(name, Column(name, "string", inferred=True)))
        because[name] = "string: from the files' names"
    said = _looked_at_words(seen.files, seen.rows) + ("" if whole else " at their beginning")
    return TableSchema(tuple(columns), now, found_hash(found), because, said)


def _told(cfg: TableConfig, looked: Found) -> dict[str, FileEvidence]:
    """The evidence of files that can be read. Others are refused, unless they may be set aside."""
    for one in looked.values():
        if isinstance(one, SourceError) and cfg.on_bad != "quarantine":
            raise one
    return {key: one for key, one in looked.items() if not isinstance(one, SourceError)}


def _named(cfg: TableConfig, found: Sequence[FoundFile]) -> list[FoundFile]:
    """Files whose names give the columns that the table takes from them, if any do: others are refused or set
    aside when they are read."""
    if cfg.columns_from_name is None:
        return list(found)
    fine = []
    for file in found:
        try:
            columns_from_name(cfg.columns_from_name, [file], ())
            fine.append(file)
        except SourceError:
            continue
    return fine or list(found)


def _limit(files: Sequence[FoundFile]) -> int | None:
    """Bytes to look at in each file; None for all of it."""
    if sum(file.size for file in files) <= BUDGET:
        return None
    return max(BUDGET // len(files), 1 << 12)


def _no_columns(run: TableRun, files: Sequence[FoundFile], looked: Found) -> SourceError:
    from lading.formats.infer.columns import first_problem
    from lading.sources.archives.scratch import scratch

    for one in looked.values():
        if isinstance(one, SourceError):
            return one
    with scratch():
        problem = first_problem(map(run.source_file, files[:_ASKED]), look_spec(run.cfg, None))
    if problem is not None:
        return problem
    why = f"none of its {len(files):,} files contains a record" if files else "it has no files"
    if len(files) == 1:
        why = f"{files[0].key} contains no records"
    return SourceError(
        f"no columns can be inferred: {why}",
        hint="add a file with records, or write the table's schema file by hand",
        file=files[0].key if files else None,
    )


def _changes(
    table: Sequence[Column], schema: TableSchema, evidence: Mapping[str, FileEvidence]
) -> tuple[str, ...]:
    """How the columns differ from those that the table has, and why: the value that decided, or the first
    file that holds a new one."""
    from lading.ingest.reread import changes_between

    found = []
    for change in changes_between(table, schema.columns):
        if change.old is None or change.new is None or change.retyped:
            why = schema.because.get(change.name, "").partition(" because of ")[2]
            if not why and change.old is None:
                why = _first_with(change.name, evidence)
            found.append(f"{change.words} ({why})" if why else change.words)
    return tuple(found)


def _first_with(name: str, evidence: Mapping[str, FileEvidence]) -> str:
    """The first file that has a column, by its key."""
    keys = (
        key for key, one in sorted(evidence.items()) if any(column.name == name for column in one.columns)
    )
    return next(keys, "")


def pin(
    run: TableRun, found: Sequence[FoundFile], now: str, aside: Collection[str] = ()
) -> tuple[Column, ...]:
    """Infer and write the first schema of a table, without asking files that are set `aside`."""
    schema = infer_schema(run, [file for file in found if file.key not in aside] or found, now=now)
    save_schema(run.config.schema_file(run.name), replace(schema, combined_hash=found_hash(found)))
    return schema.columns


def repin(
    config: Config,
    cfg: TableConfig,
    columns: tuple[Column, ...],
    followed: Followed | None,
    found: Sequence[FoundFile],
    now: str,
) -> None:
    """Bring the schema file up to what a run reads by, where that is the run's to do."""
    path = config.schema_file(cfg.name)
    there = load_schema(path)
    if cfg.spec is not None:
        if there is None or there.columns != columns:
            save_schema(path, _of_spec(config, cfg, found, now))
    elif followed is not None and (there is None or not says_the_same(there, followed.schema)):
        save_schema(path, replace(followed.schema, generated_at=now))


def says_the_same(one: TableSchema, other: TableSchema) -> bool:
    """Whether two schemas differ in nothing but when they were made."""
    return replace(one, generated_at="") == replace(other, generated_at="") and [
        column.inferred for column in one.columns
    ] == [column.inferred for column in other.columns]


def one_column_note(cfg: TableConfig, columns: Sequence[Column]) -> list[str]:
    """For people: delimited text that looks as if another character stood between its values."""
    plain = [column.name for column in columns if column.name not in name_columns(cfg.columns_from_name)]
    if cfg.format not in DELIMITERS or len(plain) != 1 or cfg.read_options.get("header") is False:
        return []
    used = cfg.read_options.get("delimiter", DELIMITERS[cfg.format])
    other = next((one for one in (";", "\t", "|", ",") if one != used and one in plain[0]), None)
    if other is None:
        return []
    return [
        f"the only column is called {plain[0]!r}: if {other!r} separates the values, set "
        f'read_options: {{delimiter: "{_as_yaml(other)}"}} and delete {schema_file(cfg.name)}'
    ]


def _as_yaml(char: str) -> str:
    return "\\t" if char == "\t" else char


def found_hash(found: Sequence[FoundFile]) -> str:
    """Worked out once for a listing: of a million files it takes seconds."""
    if not isinstance(found, FoundFiles):
        return combined_hash(file.hash for file in found)
    if found.combined_hash is None:
        found.combined_hash = combined_hash(file.hash for file in found)
    return found.combined_hash


def is_stale(schema: TableSchema, found: Sequence[FoundFile], known: str | None = None) -> bool:
    """Whether the schema was inferred from other files; one that a person wrote never is. `known` is the
    combined hash of `found`, where it need not be worked out."""
    told = schema.combined_hash
    if not told:
        return False
    if known is not None and len(known) == len(told):
        return told != known
    if len(told) == len(found_hash(())):
        return told != found_hash(found)
    return told != keyed_hash({file.key: file.hash for file in found})  # written by lading 0.1


def is_stale_for_good(
    config: Config,
    cfg: TableConfig,
    found: Sequence[FoundFile],
    plan: TablePlan,
    manifest: SourceManifest | None,
) -> bool:
    """Whether the schema is stale and no run that is due would change that. When nothing changed since the
    manifest was written, its word on the files' hash is as good as a new one, and costs nothing."""
    if cfg.spec is not None or not plan.idle:
        return False
    schema = load_schema(config.schema_file(cfg.name))
    if schema is None:
        return False
    known = manifest.lading.get(FOUND_HASH) if manifest is not None and manifest.as_written else None
    return is_stale(schema, found, known if not plan.note and isinstance(known, str) else None)


def stale_note(cfg: TableConfig) -> str:
    """For people: a schema that another look at the files might change."""
    return (
        f"{schema_file(cfg.name)} is stale: it was inferred from different files than there are now, and "
        f"some of what they hold is set aside; `lading discover-schema {cfg.name}` looks at them again"
    )


def extend_evidence(config: Config, cfg: TableConfig, found: Sequence[FoundFile], state: TableState) -> bool:
    """The schema is fresh once all files are in the table and nothing of them is set aside: a type that was
    inferred takes only what inference would still call so. Whether that is news."""
    schema = load_schema(config.schema_file(cfg.name)) if cfg.spec is None else None
    if schema is None or not is_stale(schema, found):
        return False
    rows = 0
    for key, pair in zip_longest(keys_of(found), state.sources_by_key()):
        if pair is None or pair[0].key != key or pair[0].set_aside:
            return False
        rows += pair[0].rows
    looked_at = _looked_at_words(len(found), None if cfg.transform else rows)
    new = replace(schema, combined_hash=found_hash(found), looked_at=looked_at)
    save_schema(config.schema_file(cfg.name), new)
    return True


def _of_spec(config: Config, cfg: TableConfig, found: Sequence[FoundFile], now: str) -> TableSchema:
    layout = layout_of(config, cfg)
    assert layout is not None
    because = {one.name: f"{one.type}: {cfg.spec}" for one in layout.fields}
    return TableSchema(_with_names(cfg, layout), now, found_hash(found), because)


def _with_names(cfg: TableConfig, layout: Layout) -> tuple[Column, ...]:
    names = name_columns(cfg.columns_from_name)
    return layout_columns(layout) + tuple(Column(name, "string") for name in names)


def _looked_at_words(files: int, rows: int | None) -> str:
    counted = "" if rows is None else f", {count_words(rows, 'row')}"
    return count_words(files, "file") + counted
