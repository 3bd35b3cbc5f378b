"""A table's schema: the one that is pinned, the one that is inferred, and whether it is stale.

Only `discover-schema` and `drift: evolve` change the columns of a schema file that is there. A run pins the
first one, and says when all files are read under it and it is fresh again; one that stays stale is reported.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from lading.config.project import Config, TableConfig
from lading.formats.fixed_width.spec import layout_columns, load_layout
from lading.ingest.plan import TablePlan
from lading.layout.project import schema_file
from lading.model import DELIMITERS, Column, FoundFile, Layout, Source
from lading.sources.manifest import SourceManifest
from lading.sources.names import name_columns
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
    from lading.formats.infer.columns import Inferred
    from lading.sources.evolve import Evolution

FOUND_HASH = "found_hash"  # in `lading` of manifest/<table>.json: the combined hash of the files it shows


def layout_of(config: Config, cfg: TableConfig) -> Layout | None:
    return load_layout(config.project, cfg.spec) if cfg.spec is not None else None


def pinned_columns(config: Config, cfg: TableConfig) -> tuple[Column, ...] | None:
    """The columns of the schema file; those of fixed-width tables are the spec's."""
    layout = layout_of(config, cfg)
    if layout is not None:
        return _with_names(cfg, layout)
    schema = load_schema(config.schema_file(cfg.name))
    return with_rules(schema.columns, cfg.rules) if schema is not None else None


def infer_schema(
    config: Config,
    cfg: TableConfig,
    found: Sequence[FoundFile],
    *,
    now: str,
    full_scan: bool = False,
    aside: Collection[str] = (),
) -> TableSchema:
    """The schema that the files give, those not asked that are set `aside`; types that a person changed
    stay theirs."""
    layout = layout_of(config, cfg)
    old = load_schema(config.schema_file(cfg.name))
    if layout is not None:
        because = {field.name: f"{field.type}: {cfg.spec}" for field in layout.fields}
        return TableSchema(_with_names(cfg, layout), now, found_hash(found), because)
    asked = [file for file in found if file.key not in aside]
    inferred = infer_columns(cfg, asked or found, old, full_scan=full_scan)
    theirs = {c.name: c for c in old.written} if old is not None else {}
    because = inferred.because | {name: old.because.get(name, "") for name in theirs if old is not None}
    columns = tuple(theirs.pop(column.name, column) for column in inferred.columns)
    columns = with_rules((*columns, *theirs.values()), cfg.rules)
    because |= {rule.name: IN_CONFIG for rule in cfg.rules if rule.type is not None}
    return TableSchema(columns, now, found_hash(found), because, _looked_at(inferred))


def infer_columns(
    cfg: TableConfig, found: Sequence[FoundFile], old: TableSchema | None = None, *, full_scan: bool = False
) -> Inferred:
    from lading.formats.infer.columns import infer  # pyarrow: only when there is something to infer

    names = name_columns(cfg.columns_from_name)
    headless = cfg.format in DELIMITERS and cfg.read_options.get("header") is False
    return infer(
        found,
        fmt=cfg.format,
        read_options=cfg.read_options,
        name_columns=names,
        names=_headless_names(cfg, old) if headless else None,
        naming=cfg.naming.knowing(column.name for column in (old.written if old is not None else ())),
        rules=cfg.rules,
        full_scan=full_scan or cfg.policy.follows,
        join_types=cfg.policy.follows,
        tolerant=cfg.on_bad == "quarantine",
    )


def _headless_names(cfg: TableConfig, old: TableSchema | None) -> tuple[str, ...] | None:
    """Of files without a header: those of the schema, or of lading.yaml. None: they are numbered."""
    names = name_columns(cfg.columns_from_name)
    listed = old.columns if old is not None else positional(cfg.rules)
    return tuple(one.name for one in listed if one.name not in names) or None


def evolution_of(
    config: Config,
    cfg: TableConfig,
    columns: tuple[Column, ...],
    fresh: Sequence[FoundFile],
    found: Sequence[FoundFile],
    fetch: Callable[[Sequence[FoundFile]], list[FoundFile]],
) -> Evolution | None:
    """What `drift: evolve` makes of the columns when `fresh` files come in."""
    if not fresh or not cfg.policy.follows or cfg.format == "fixed_width":
        return None
    from lading.sources.evolve import evolve

    schema = load_schema(config.schema_file(cfg.name))
    settings: dict[str, Any] = {
        "empty": schema.empty if schema is not None else (),
        "fmt": cfg.format,
        "read_options": cfg.read_options,
        "name_columns": name_columns(cfg.columns_from_name),
        "naming": cfg.naming.knowing(column.name for column in columns),
        "rules": cfg.rules,
    }
    new = fetch(fresh)
    if len(fresh) < len(found) and evolve(columns, new, new, **settings) is None:
        return None
    return evolve(columns, new, fetch(found), **settings)


def pin(
    config: Config, cfg: TableConfig, found: Sequence[FoundFile], now: str, aside: Collection[str] = ()
) -> tuple[Column, ...]:
    """Infer and write the first schema of a table."""
    schema = infer_schema(config, cfg, found, now=now, aside=aside)
    save_schema(config.schema_file(cfg.name), schema)
    return schema.columns


def repin(
    config: Config,
    cfg: TableConfig,
    columns: tuple[Column, ...],
    evolution: Evolution | None,
    found: Sequence[FoundFile],
    now: str,
) -> None:
    """Bring the schema file up to what a run reads by, where that is the run's to do."""
    path = config.schema_file(cfg.name)
    schema = load_schema(path)
    if cfg.spec is not None:
        if schema is None or schema.columns != columns:
            save_schema(path, infer_schema(config, cfg, found, now=now))
        return
    if schema is None or not cfg.policy.follows or (not schema.combined_hash and evolution is None):
        return
    if evolution is not None or is_stale(schema, found):
        current = found_hash(found)
        because = schema.because | (evolution.because if evolution is not None else {})
        new = replace(
            schema,
            columns=columns,
            because=because,
            combined_hash=current,
            generated_at=now,
            looked_at=_looked_at_words(len(found), None),  # whole: those that are new, now, the others before
        )
        save_schema(path, new)


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
    return combined_hash([file.hash for file in found])


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


def extend_evidence(
    config: Config, cfg: TableConfig, found: Sequence[FoundFile], sources: Mapping[str, tuple[Source, int]]
) -> bool:
    """The schema is fresh once all files are in the table and nothing of them is set aside: a type that was
    inferred takes only what inference would still call so. Whether that is news."""
    schema = load_schema(config.schema_file(cfg.name)) if cfg.spec is None else None
    if schema is None or not is_stale(schema, found):
        return False
    read = [sources[file.key][0] for file in found if file.key in sources]
    if len(read) != len(found) or len(sources) != len(found) or any(one.set_aside for one in read):
        return False
    rows = None if cfg.transform else sum(one.rows for one in read)
    looked_at = _looked_at_words(len(found), rows)
    new = replace(schema, combined_hash=found_hash(found), looked_at=looked_at)
    save_schema(config.schema_file(cfg.name), new)
    return True


def _with_names(cfg: TableConfig, layout: Layout) -> tuple[Column, ...]:
    names = name_columns(cfg.columns_from_name)
    return layout_columns(layout) + tuple(Column(name, "string") for name in names)


def _looked_at(inferred: Inferred) -> str:
    said = _looked_at_words(inferred.files, inferred.rows)
    return said + ("" if inferred.whole else " at their beginning")


def _looked_at_words(files: int, rows: int | None) -> str:
    counted = "" if rows is None else f", {count_words(rows, 'row')}"
    return count_words(files, "file") + counted
