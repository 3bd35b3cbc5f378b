"""`schema/<table>.yaml`: a table's columns, pinned when they are first inferred and edited by people.

A change of column or type in here is a change of recipe; `combined_hash` only says which files the
inference saw, so that a schema can be reported stale. `because` says what a type was inferred from, and
begins with that type: where the two differ, a person has changed the type, and it is theirs.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Any, NoReturn

import yaml

from lading.config.types import canonical_type
from lading.config.yaml import compose
from lading.errors import ConfigError
from lading.formats.drift import RESERVED
from lading.formats.header import IN_CASE
from lading.formats.types import NO_VALUE
from lading.late import np
from lading.model import Column, ColumnRule
from lading.storage.folder import write_atomic

IN_CONFIG = "as lading.yaml says"  # in place of evidence: the type goes with the line of lading.yaml
_KEYS = ("generated_at", "combined_hash", "looked_at", "columns")
_COLUMN_KEYS = ("name", "type", "because")
_HEAD = """\
# The pinned columns of this table. If you change a type here, it stays yours and the table is read again
# with it. If you delete this file, all types are inferred again.
"""


_AT_ONCE = 1 << 16  # fingerprints


def was_inferred(dtype: str, because: str) -> bool:
    """Whether the evidence of a column is for the type that it has. Without evidence a person wrote it, and
    where the two differ a person changed it. Older files have only `struct` or `array` of a nested type."""
    shape = re.escape(dtype.partition("<")[0])
    return re.match(rf"(?:{re.escape(dtype)}|{shape})(?![<(\w])", because) is not None


@dataclass(frozen=True, slots=True)
class TableSchema:
    columns: tuple[Column, ...]
    generated_at: str  # ISO-8601
    combined_hash: str  # of the source files that the inference saw
    because: Mapping[str, str] = field(default_factory=dict)  # by column
    looked_at: str = ""  # how much of the files, for people

    @property
    def written(self) -> tuple[Column, ...]:
        """The columns whose types a person wrote, in the file itself."""
        return tuple(
            one for one in self.columns if not one.inferred and self.because.get(one.name) != IN_CONFIG
        )

    @property
    def empty(self) -> frozenset[str]:
        """The columns that are text only because no file had a value for them."""
        return frozenset(name for name, because in self.because.items() if because == NO_VALUE)


def with_rules(columns: Sequence[Column], rules: Sequence[ColumnRule]) -> tuple[Column, ...]:
    """Columns with the types that lading.yaml gives them, and behind them those that only lading.yaml has."""
    types = {rule.name: rule.type for rule in rules if rule.type is not None}
    found = [Column(one.name, types.pop(one.name)) if one.name in types else one for one in columns]
    return (*found, *(Column(name, kind) for name, kind in types.items()))


def positional(rules: Sequence[ColumnRule]) -> tuple[ColumnRule, ...]:
    """The columns of files without a header, in the order of lading.yaml; none if it only says something of
    columns that are numbered."""
    numbered = all(re.fullmatch(r"column_[1-9][0-9]*", rule.name) for rule in rules)
    return () if numbered else tuple(rules)


def combined_hash(hashes: Iterable[str]) -> str:
    """One hash over the files' fingerprints, as Fairway works it out: in order, one behind the other."""
    rest = iter(hashes)
    some = list(islice(rest, _AT_ONCE))
    if len(some) < _AT_ONCE:
        return hashlib.sha256("".join(sorted(some)).encode()).hexdigest()[:16]
    # Many are sorted as an array of bytes, half the size of texts: in UTF-8 the order is the same.
    columns = []
    while some:
        columns.append(np.array([one.encode() for one in some]))
        some = list(islice(rest, _AT_ONCE))
    every = np.concatenate(columns)
    every.sort()
    digest = hashlib.sha256()
    for start in range(0, len(every), _AT_ONCE):
        digest.update(b"".join(every[start : start + _AT_ONCE].tolist()))
    return digest.hexdigest()[:16]


def keyed_hash(hashes: Mapping[str, str]) -> str:
    """One hash over keys and fingerprints, in whatever order they come; neither holds a NUL. lading 0.1 wrote
    it where `combined_hash` is now, four times as long."""
    text = "\0".join([f"{key}\0{hashes[key]}" for key in sorted(hashes)])
    return hashlib.sha256(text.encode()).hexdigest()


def save_schema(path: Path, schema: TableSchema) -> None:
    tree: dict[str, Any] = {
        "generated_at": schema.generated_at,
        "combined_hash": schema.combined_hash,
        **({"looked_at": schema.looked_at} if schema.looked_at else {}),
        "columns": [_entry(schema, column) for column in schema.columns],
    }
    # Unprintable characters only survive YAML as escapes; names that people can read stay readable.
    readable = all(text.isprintable() for column in tree["columns"] for text in column.values())
    body = yaml.safe_dump(tree, sort_keys=False, allow_unicode=readable, width=1000)
    write_atomic(path, (_HEAD + body).encode())


def _entry(schema: TableSchema, column: Column) -> dict[str, str]:
    entry = {"name": column.name, "type": column.type}
    because = schema.because.get(column.name)
    return {**entry, "because": because} if because else entry


def load_schema(path: Path) -> TableSchema | None:
    """Read it; None when there is none. Errors name file, line and key."""
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(
            f"{path} can't be read: {error}", hint="make it readable UTF-8, then run again", file=str(path)
        ) from error
    return _parsed(path, text)


@lru_cache(16)
def _parsed(path: Path, text: str) -> TableSchema:
    """A run asks for it several times, and a thousand columns take PyYAML a quarter of a second."""
    try:
        root = compose(text)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f"{path}:{mark.line + 1}" if mark is not None else str(path)
        raise ConfigError(
            f"{where}: not valid YAML: {getattr(error, 'problem', None) or error}",
            hint="fix the line, or delete the file to have the types inferred again",
            file=str(path),
        ) from error
    return _File(path).schema(root)


class _File:
    """Turns nodes into values. Scalars are taken by their text: a column may be called `no` or `1`."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def schema(self, root: yaml.Node | None) -> TableSchema:
        top = self._mapping(root, "the schema", _KEYS)
        if "columns" not in top:
            self._fail(root, "`columns` is missing", "list the columns as `- {name: id, type: bigint}`")
        listed = top["columns"]
        if not isinstance(listed, yaml.SequenceNode) or not listed.value:
            self._fail(listed, "`columns` must be a list", "list the columns as `- {name: id, type: bigint}`")
        columns: list[Column] = []
        because: dict[str, str] = {}
        seen: dict[str, str] = {}  # by their names in lower case
        for node in listed.value:
            column, why = self._column(node)
            if why:
                because[column.name] = why
            other = seen.get(column.name.lower())
            if other == column.name:
                self._fail(node, f"there are two columns named {column.name!r}", "remove one of them")
            if other is not None:
                self._fail(node, f"the columns {other!r} and {column.name!r} {IN_CASE}", "rename one of them")
            seen[column.name.lower()] = column.name
            columns.append(column)
        return TableSchema(
            tuple(columns),
            self._text(top.get("generated_at")),
            self._text(top.get("combined_hash")),
            because,
            self._text(top.get("looked_at")),
        )

    def _column(self, node: yaml.Node) -> tuple[Column, str]:
        entry = self._mapping(node, "a column", _COLUMN_KEYS)
        for key in ("name", "type"):
            if not isinstance(entry.get(key), yaml.ScalarNode) or not entry[key].value:
                self._fail(entry.get(key, node), f"`{key}` is missing", "write `- {name: id, type: bigint}`")
        name, kind = self._text(entry["name"]), self._text(entry["type"])
        if name in RESERVED:
            self._fail(entry["name"], f"the column name {name!r} is reserved for lading", "rename the column")
        try:
            dtype, because = canonical_type(kind), self._text(entry.get("because"))
            return Column(name, dtype, inferred=was_inferred(dtype, because)), because
        except ValueError as error:
            self._fail(entry["type"], f"`type` {kind!r} of column {name!r}: {error}", "use a Spark SQL type")

    def _mapping(self, node: yaml.Node | None, what: str, keys: tuple[str, ...]) -> dict[str, yaml.Node]:
        if not isinstance(node, yaml.MappingNode):
            self._fail(
                node, f"{what} must have the keys {', '.join(keys)}", "see another table's schema file"
            )
        found: dict[str, yaml.Node] = {}
        for key, value in node.value:
            if key.value not in keys:
                self._fail(key, f"unknown key `{key.value}`", f"valid keys are {', '.join(keys)}")
            if key.value in found:
                self._fail(key, f"`{key.value}` is given twice", "remove one of them")
            found[key.value] = value
        return found

    def _text(self, node: yaml.Node | None) -> str:
        return str(node.value) if isinstance(node, yaml.ScalarNode) else ""

    def _fail(self, node: yaml.Node | None, message: str, hint: str) -> NoReturn:
        line = node.start_mark.line + 1 if node is not None else 1
        raise ConfigError(f"{self._path}:{line}: {message}", hint=hint, file=str(self._path))
