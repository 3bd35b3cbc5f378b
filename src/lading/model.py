"""Frozen values that the rooms exchange. No behaviour beyond what follows from the fields.

Values that are stored in the log are msgspec structs and `array_like`, so that a commit of one member stays
a few hundred bytes and decodes in about a microsecond: a field may be appended with a default, never moved or
dropped. They hold no cycles, so the garbage collector need not look at 100,000 of them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal

import msgspec

# A column value in its stored, comparable form (see zones/bounds.py): ints for integers, booleans,
# dates (days) and timestamps (their own unit), floats for floats, str for strings, bytes for
# binary and for decimals (order-preserving, 17 bytes). msgspec can't tell str from bytes in a union,
# msgpack can: at run time the fields take whatever msgpack gives.
if TYPE_CHECKING:
    Bound = int | float | str | bytes
else:
    Bound = Any

Verdict = Literal["new", "changed", "reread", "touched", "unchanged", "vanished", "failed", "quarantined"]


Severity = Literal["error", "warn"]
StartSpark = Callable[[], Any]  # starts Spark, or gives the session that is there
OnBad = Literal["fail", "quarantine"]
Format = Literal["csv", "tsv", "json", "parquet", "orc", "avro", "excel", "fixed_width"]
TYPED = frozenset({"parquet", "orc", "avro"})  # formats whose files say what types their columns have
BINARY = TYPED | {
    "excel"
}  # formats that are no text: they have no encoding, and are never compressed by suffix
ColumnsPolicy = Literal["strict", "add", "ignore"]
TypesPolicy = Literal["strict", "widen", "quarantine"]
NamesPolicy = Literal["exact", "fold", "snake"]
DELIMITERS = {"csv": ",", "tsv": "\t"}  # of the formats that are delimited text, unless `delimiter` is given


@dataclass(frozen=True, slots=True)
class Policy:
    """What becomes of a file whose columns or values are not the schema's.

    Names: refused (`strict`), taken into the table and null where a file lacks them (`add`), or left out
    (`ignore`). Values that are none of the type: bad rows (`strict`), a wider type (`widen`), or bad rows
    that are set aside whatever `on_bad` says (`quarantine`).
    """

    columns: ColumnsPolicy = "strict"
    types: TypesPolicy = "strict"
    by_column: tuple[tuple[str, TypesPolicy], ...] = ()  # where a column's is another, sorted by name

    def types_of(self, name: str) -> TypesPolicy:
        return next((types for column, types in self.by_column if column == name), self.types)

    @property
    def adds(self) -> bool:
        return self.columns == "add"

    @property
    def follows(self) -> bool:
        """Whether the schema follows the files."""
        return self.adds or any(types != "strict" for types in self._of_any)

    @property
    def quarantines(self) -> bool:
        """Whether rows with misfits of some column are set aside whatever `on_bad` says."""
        return "quarantine" in self._of_any

    @property
    def _of_any(self) -> tuple[TypesPolicy, ...]:
        return (self.types, *(types for _, types in self.by_column))

    @property
    def drift(self) -> str | None:
        """The one word for it, if it has one."""
        return next((word for word, policy in DRIFTS.items() if policy == self), None)


STRICT = Policy()
DRIFTS = {"strict": STRICT, "ignore_new": Policy("ignore"), "evolve": Policy("add", "widen")}


@dataclass(frozen=True, slots=True)
class Place:
    """Where something lies: a folder, or a prefix in a bucket and what it takes to reach it. A plain value
    that travels to Spark's workers; what is done there goes through its storage (storage/place.py)."""

    url: str  # a folder's path, or s3://bucket/prefix without credentials: safe to show
    options: tuple[tuple[str, str], ...] = field(default=(), repr=False)  # may hold keys: never shown
    cache: str | None = None  # the folder for copies of what is opened more than once

    def below(self, name: str) -> Place:
        return Place(f"{self.url.rstrip('/')}/{name}", self.options, self.cache)

    def __str__(self) -> str:
        return self.url


class Zone(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """min, max and null count of one column in one member.

    min/max None means "unknown": the member can't be ruled out by them. A truncated string max is
    rounded up, so both are bounds, not necessarily values. NaN never counts into min and max.
    """

    min: Bound | None
    max: Bound | None
    nulls: int | None


class Member(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The log's entry for one live data file."""

    path: str  # relative to the collection, with "/"; absolute only for files added from elsewhere
    rows: int  # rows in the file
    bytes: int
    bucket: int
    tick_min: int
    tick_max: int
    key_min: Bound | None  # of the order column; None when the member has no sort key
    key_max: Bound | None
    created_at: str  # ISO-8601, UTC
    zones: dict[str, Zone]
    sources: tuple[tuple[int, int], ...] = ()  # (source id, rows), sorted by id; rows sum up to `rows`
    tier: int = 0
    minus: tuple[int, ...] = ()  # source ids whose rows no longer count, sorted

    @property
    def live_rows(self) -> int:
        if not self.minus:
            return self.rows
        gone = set(self.minus)
        return self.rows - sum(n for source, n in self.sources if source in gone)

    def counts_any(self, sources: frozenset[int]) -> bool:
        """Whether rows of any of `sources` count here: held, and not taken away by a `minus`."""
        return any(source in sources and source not in self.minus for source, _ in self.sources)


# How tables made of a table cut a source's rows, by a mark of the cut (ingest/derived/slots.py): the slots
# that they are in, and how many of them are in each. Nothing is said where they are in many slots.
Slots = tuple[tuple[int, tuple[tuple[int, int], ...]], ...]


class Source(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What the log knows of one source file whose rows are (or were found to be) in the table."""

    id: int  # xxh3_64 of the key, signed: the `_source` of its rows
    key: str
    hash: str  # the fingerprint as in manifest/<table>.json
    sha256: str
    size: int
    mtime_ns: int
    rows: int
    racy: bool
    processed_at: str  # ISO-8601
    archive: str | None = None
    rejected: int = 0  # rows of it that were set aside
    quarantine: str | None = None  # the file that holds them, relative to the table; None once dropped
    aside: str | None = None  # why the file was set aside whole, if it was
    slots: Slots = ()

    @property
    def set_aside(self) -> bool:
        """Whether a rebuild might give more rows of it under other rules."""
        return bool(self.rejected or self.aside is not None)


class Looked(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What a look at one source file found, as the log keeps it (formats/evidence.py)."""

    source: int
    mark: int  # of the bytes that were looked at, and how: evidence of anything else counts for nothing
    evidence: bytes


class Pin(msgspec.Struct, frozen=True, omit_defaults=True):
    """The snapshot of an input that a table made of tables was made from."""

    name: str  # as the query calls it
    table_id: str
    sequence: int
    ref: str  # its manifest
    run_id: str
    schema: str  # a hash of its columns
    by_path: bool = False  # whether it is a table elsewhere; one of this warehouse may have its name


class Commit(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """One atomic frame of the log. `sequence` is set by the log when it is appended."""

    commit_id: str
    run_id: str
    at: str  # ISO-8601, UTC
    recipe: str
    add: tuple[Member, ...] = ()
    remove: tuple[str, ...] = ()  # paths
    tier: tuple[tuple[str, int], ...] = ()  # (path, tier)
    minus: tuple[tuple[str, tuple[int, ...]], ...] = ()  # (path, source ids to leave out from now on)
    sources: tuple[Source, ...] = ()  # read, touched or cleared
    gone: tuple[int, ...] = ()  # source ids retracted
    schema: bytes | None = None  # Arrow IPC schema of the table, when it is set or changes
    order_by: str | None = None  # with `schema`: the order column
    sequence: int = 0
    expire: tuple[str, ...] = ()  # runs given up for dead: what they planned before this may not be committed
    facts: bytes | None = None  # what `recipe` is the hash of (sources/recipe.py), when it changes
    evidence: tuple[Looked, ...] = ()
    inputs: bytes | None = None  # JSON of the `Pin`s that a table made of tables is at now, when they change

    @property
    def changes_rows(self) -> bool:
        """Whether a reader could see a difference: otherwise no snapshot is published for it."""
        return bool(self.add or self.remove or self.minus or self.gone or self.schema is not None)


class FoundFile(msgspec.Struct, frozen=True, gc=False):
    """One file that discovery found for a table. A struct, and without its fingerprint's text: there may
    be 100,000 of them, and a run with nothing to do should cost no more than listing them."""

    key: str  # relative to the root, with "/"
    path: str  # absolute
    size: int
    mtime_ns: int
    racy: bool  # mtime not clearly older than the discovery
    archive: str | None = None  # the key of the archive, or of the file that a script made it from
    fingerprint: str | None = None  # of what has one of its own: a member's SHA-256, an object's ETag
    spot: int = 0  # a number for where it lies (sources/fingerprint.py); 0: not known

    @property
    def hash(self) -> str:
        """The fast fingerprint, mtime:<st_mtime>_size:<bytes>; st_mtime as `os.stat` works it out."""
        if self.fingerprint is not None:
            return self.fingerprint
        seconds, nanoseconds = divmod(self.mtime_ns, 1_000_000_000)
        return f"mtime:{seconds + 1e-9 * nanoseconds}_size:{self.size}"


@dataclass(frozen=True, slots=True)
class Digest:
    """What one pass over a file's bytes found."""

    sha256: str
    size: int


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a table's pinned schema; `type` is a Spark DDL type (`bigint`, `timestamp_ntz`, …).

    A type that was inferred takes only what inference would still call so; one that a person wrote takes all
    that can be read as it. The two are the same column, so this doesn't count when columns are compared.
    """

    name: str
    type: str
    inferred: bool = field(default=False, compare=False)


@dataclass(frozen=True, slots=True)
class ColumnRule:
    """What lading.yaml says of one column; what it leaves out is the table's way, or inferred."""

    name: str
    type: str | None = None
    headers: tuple[str, ...] = ()  # other names that files have for it
    dates: tuple[str, ...] | None = None  # patterns; the first that reads a text counts
    timestamps: tuple[str, ...] | None = None
    nulls: tuple[str, ...] | None = None  # texts that mean nothing
    decimal: str | None = None
    default: str | None = None  # what stands in place of a null, and in files that lack the column; as text
    types: TypesPolicy | None = None
    line: int = field(default=0, compare=False)  # of lading.yaml, for messages

    @property
    def reads_texts(self) -> bool:
        """Whether it says how texts are read as dates, times or numbers."""
        return any(one is not None for one in (self.dates, self.timestamps, self.decimal))


@dataclass(frozen=True, slots=True)
class Threshold:
    """How much may be bad: a number of rows, or a share of them."""

    count: int = 0
    share: float | None = None  # 0.01 for 1%; then `count` doesn't matter

    def exceeded(self, bad: int, of: int) -> bool:
        return bad > self.count if self.share is None else bad > self.share * of

    def __str__(self) -> str:
        return str(self.count) if self.share is None else f"{self.share * 100:g}%"


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that has to hold: for each row, or for the whole table."""

    kind: str
    name: str
    key: str  # where lading.yaml says it, for messages
    line: int
    severity: Severity = "error"
    threshold: Threshold = Threshold()
    columns: tuple[str, ...] = ()
    least: str | None = None  # range
    most: str | None = None
    values: tuple[str, ...] = ()
    text: str = ""  # the regular expression, or the SQL
    number: int = 0  # min_rows, max_rows
    strict: bool = False  # columns: these and no others

    @property
    def on_rows(self) -> bool:
        return self.kind in ("not_null", "range", "values", "pattern", "sql")


@dataclass(frozen=True, slots=True)
class CheckResult:
    """How one check went: over the rows read in this run, or over the whole table."""

    name: str
    passed: bool
    severity: Severity
    failed: int  # rows that failed; for a check that has no rows, 0 or 1
    message: str = ""  # what was found, for people
    sample: tuple[str, ...] = ()
    on_rows: bool = False

    @property
    def blocks(self) -> bool:
        return not self.passed and self.severity == "error"


@dataclass(frozen=True, slots=True)
class Field:
    """One column of a fixed-width line, counted in characters from 0."""

    name: str
    start: int
    length: int
    type: str
    trim: bool = True


@dataclass(frozen=True, slots=True)
class Layout:
    """What a fixed-width spec says: where the columns are, and which lines are records."""

    fields: tuple[Field, ...]
    filter: tuple[int, int, str] | None = None  # position, length, value: other lines are no records

    @property
    def width(self) -> int:
        """Characters that a record must have."""
        ends = [field.start + field.length for field in self.fields]
        return max(*ends, 0, self.filter[0] + self.filter[1] if self.filter else 0)


@dataclass(frozen=True, slots=True)
class IngestJob:
    """What becomes of the rows that are read, on their way into parts."""

    table: str
    table_dir: Place  # parts go to <table_dir>/bucket=…/part-….parquet
    table_id: str
    run_id: str
    commit_id: str
    columns: tuple[Column, ...]  # the pinned schema, columns from file names included
    sources: frozenset[int]  # of the files that are read
    input_bytes: int
    order_by: str | None = None
    bucket_size: int | str | None = None  # 100, "12h", "30d"; settled against the order column's type
    transform: str | None = None  # absolute path:function
    per: Literal["file", "table"] = "file"
    spark: dict[str, str] = field(default_factory=dict)
    checks: tuple[Check, ...] = ()
    quarantine: bool = False  # bad rows are left out, to be set aside, instead of failing the run
    project: str | None = None  # the folder that a transform may import its own modules from
    known: bytes = b""  # Arrow IPC schema that the log carries: whose numbers the columns keep

    @property
    def row_checks(self) -> tuple[Check, ...]:
        return tuple(check for check in self.checks if check.on_rows)


@dataclass(frozen=True, slots=True)
class BadRow:
    """A row that does not fit."""

    source: int
    record: int | None  # from 1 in its file; None for a row that a transform made
    line: int | None
    column: str | None
    reason: str
    text: str


@dataclass(frozen=True, slots=True)
class CheckTally:
    """What the checks found in the rows of one ingest, by source; `failed` by check and source."""

    rows: dict[int, int] = field(default_factory=dict)  # that came to the checks
    failed: dict[str, dict[int, int]] = field(default_factory=dict)
    sample: dict[str, tuple[tuple[int, str], ...]] = field(default_factory=dict)  # (source, the row)


@dataclass(frozen=True, slots=True)
class SnapshotRef:
    """An immutable reference to a published snapshot (seed: ManifestRef)."""

    ref: str
    run_id: str
    published_at: datetime  # UTC
    sequence: int = 0
    held: bool = False
    swap_id: str = ""  # names one move of the pointer, so that a compare-and-swap can't mistake another
    # Of the pointer: manifests that are about to be deleted, so that nobody may point at them any more.
    retired: tuple[str, ...] = ()
    # Of the pointer: the swap_ids of the moves before this one, newest first. Who got no answer to a move
    # finds it there, also when others have moved the pointer since.
    before: tuple[str, ...] = field(default=(), compare=False)
