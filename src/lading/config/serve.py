"""`serve:` of a table: what is stored under which key, in how many shards, and how a key finds its own."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Literal, cast

from lading.cel.check import TYPES, check, check_results
from lading.cel.parse import CelProblem
from lading.config.section import Section
from lading.config.yaml import Line
from lading.layout.table import SHARD_TEMPLATE, SHARDS, SOURCE, is_taken
from lading.words import count_words

SERVE_KEYS = (
    "key",
    "value",
    "encoding",
    "key_encoding",
    "shards",
    "max_keys_per_shard",
    "duplicates",
    "cel",
    "shard_prefix",
    "db_path_template",
)
CEL_KEYS = ("expr", "columns", "routing_values")
ENCODINGS = ("json", "msgpack", "raw")
KEY_ENCODINGS = ("u64be", "u32be", "utf8", "raw")
SHARD_LIMIT = 100_000

# Plain characters only: a shard's place is part of a path and of a URL, and has to be the same in both.
_TEMPLATE = re.compile(r"[A-Za-z0-9_=.-]*\{db_id(?::0?[0-9]{0,2}d?)?\}[A-Za-z0-9_=.-]*")
_PREFIX = re.compile(r"[A-Za-z0-9_=.-]+(?:/[A-Za-z0-9_=.-]+)*")
_LONGEST = 200  # characters: what a shard's file and its attempt are called comes behind


@dataclass(frozen=True, slots=True)
class Cel:
    """Routing by an expression: it gives the shard's number, or a token of `routing_values`."""

    expr: str
    columns: dict[str, str]  # name -> CEL type; `key` is the key
    routing_values: tuple[int | str, ...] | None = None
    line: int = 0  # of lading.yaml, for what is found out later


@dataclass(frozen=True, slots=True)
class Serve:
    """How a table is served by key."""

    key: tuple[str, ...]
    value: tuple[str, ...] | None = None  # None: every column
    encoding: Literal["json", "msgpack", "raw"] = "json"
    key_encoding: Literal["u64be", "u32be", "utf8", "raw"] | None = None  # None: as the key's type suggests
    shards: int | None = None
    max_keys_per_shard: int | None = None
    duplicates: Literal["error", "latest"] = "error"
    cel: Cel | None = None
    shard_prefix: str = SHARDS
    db_path_template: str = SHARD_TEMPLATE
    lines: dict[str, int] = field(default_factory=dict, compare=False)  # key -> line, for later complaints


def serve(table: Section) -> Serve | None:
    """The table's `serve:`, None when it has none."""
    if "serve" not in table.lines:
        return None
    section = table.section("serve", SERVE_KEYS)
    key = _names(section, "key", "the key column, or a list of columns")
    if "key" not in section.lines:
        section.complain("key", "is missing")
    key_encoding = section.choice("key_encoding", KEY_ENCODINGS) if "key_encoding" in section.lines else None
    if len(key) > 1 and key_encoding not in (None, "raw"):
        section.complain("key_encoding", "a key of several columns is stored as raw; remove this key")
    encoding = section.choice("encoding", ENCODINGS)
    cel = _cel(section, key)
    found = Serve(
        key=key,
        value=_value(section, encoding),
        encoding=cast(Literal["json", "msgpack", "raw"], encoding),
        key_encoding=cast(Literal["u64be", "u32be", "utf8", "raw"] | None, key_encoding),
        shards=_whole(section, "shards", SHARD_LIMIT),
        max_keys_per_shard=_whole(section, "max_keys_per_shard", 1 << 40),
        duplicates=cast(Literal["error", "latest"], section.choice("duplicates", ("error", "latest"))),
        cel=cel,
        shard_prefix=section.checked("shard_prefix", _prefix_problem) or SHARDS,
        db_path_template=section.checked("db_path_template", _template_problem) or SHARD_TEMPLATE,
        lines={name: line.line for name, line in section.lines.items()} | {"": section.line},
    )
    _check_count(section, found)
    if cel is not None:
        _check_expression(section.section("cel", CEL_KEYS), cel, found.shards)
    return found


def _check_count(section: Section, found: Serve) -> None:
    if "shards" in section.lines and "max_keys_per_shard" in section.lines:
        section.complain("max_keys_per_shard", "shards already sets the number; keep only one of the two")
    tokens = found.cel.routing_values if found.cel is not None else None
    if found.cel is None:
        if "shards" not in section.lines and "max_keys_per_shard" not in section.lines:
            section.complain("shards", "is missing; give a number such as 8, or max_keys_per_shard: 1000000")
        return
    if "max_keys_per_shard" in section.lines:
        section.complain("max_keys_per_shard", "only works with routing by hash; an expression needs shards")
    if tokens is not None and found.shards not in (None, len(tokens)):
        section.complain(
            "shards", f"routing_values has {count_words(len(tokens), 'token')}, one shard each; remove shards"
        )
    if tokens is None and "shards" not in section.lines and found.cel.expr:
        section.complain(
            "shards", "is missing; give the number of shards: the expression numbers them 0 to shards - 1"
        )


def _cel(section: Section, key: tuple[str, ...]) -> Cel | None:
    if "cel" not in section.lines:
        return None
    cel = section.section("cel", CEL_KEYS)
    expr = cel.text("expr", required=True) or ""
    types = cel.section("columns", None)
    if not types.lines:
        cel.complain("columns", "is missing; list what the expression uses: {key: int, region: string}")
    columns = {name: types.choice(name, TYPES, required=True) for name in types.lines}
    if "key" in columns and len(key) > 1:
        types.complain("key", f"the key has several columns: name them ({', '.join(key)})")
    return Cel(expr, columns, _tokens(cel), cel.lines["expr"].line if "expr" in cel.lines else cel.line)


def _tokens(cel: Section) -> tuple[int | str, ...] | None:
    line = cel.lines.get("routing_values")
    if line is None:
        return None
    entries = line.value if isinstance(line.value, list) else []
    values = [one.value for one in entries if isinstance(one, Line) and type(one.value) in (int, str)]
    if not values or len(values) < len(entries):
        cel.complain("routing_values", "must be a list of tokens, all text or all whole numbers")
        return None
    if len({type(value) for value in values}) > 1:
        cel.complain("routing_values", "must be all text or all whole numbers; put numbers in quotes")
        return None
    twice = next((value for value in values if values.count(value) > 1), None)
    if twice is not None:
        cel.complain("routing_values", f"{twice!r} is listed twice")
        return None
    return tuple(values)


def _check_expression(section: Section, cel: Cel, shards: int | None) -> None:
    if not cel.expr or not cel.columns:
        return
    try:
        check_results(check(cel.expr, cel.columns), shards, cel.routing_values)
    except CelProblem as problem:
        hint = f"; {problem.hint}" if problem.hint else ""
        section.complain("expr", f"{problem.explained(cel.expr)}{hint}")


def _names(section: Section, name: str, what: str) -> tuple[str, ...]:
    line = section.lines.get(name)
    if line is None:
        return ()
    entries = line.value if isinstance(line.value, list) else [line]
    names = [one.text for one in entries if isinstance(one, Line) and isinstance(one.value, str)]
    if not names or len(names) < len(entries) or not all(names):
        section.complain(name, f"must be text or a list of texts: {what}")
        return ()
    if len(set(names)) < len(names):
        section.complain(name, "names a column twice")
    if SOURCE in names:
        section.complain(name, f"{SOURCE} is reserved for lading; choose other columns")
    return tuple(cast(list[str], names))


def _value(section: Section, encoding: str) -> tuple[str, ...] | None:
    line = section.lines.get("value")
    if line is None or line.value == "*":
        if encoding == "raw":
            section.complain("value", "encoding raw stores one column as it is; name that column")
        return None
    names = _names(section, "value", 'the columns to store, or "*"')
    if encoding == "raw" and len(names) > 1:
        section.complain("value", "encoding raw stores one column as it is; name one, or use json or msgpack")
    return names


def _whole(section: Section, name: str, most: int) -> int | None:
    line = section.lines.get(name)
    if line is None:
        return None
    if type(line.value) is int and 1 <= line.value <= most:
        return line.value
    section.complain(name, f"must be a whole number from 1 to {most}")
    return None


def _prefix_problem(text: str) -> str | None:
    steps = text.split("/")
    if not _PREFIX.fullmatch(text) or any(not step.strip(".") for step in steps):
        return (
            "must be a plain folder name below the table's root, such as shards or serving/shards: "
            "only letters, digits and _ = . -, no folder named only with dots, no slash at either end"
        )
    if len(text) > _LONGEST:
        return f"may have at most {_LONGEST} characters"
    return "is a name that lading reserves" if is_taken(text) else None


def _template_problem(text: str) -> str | None:
    if not _TEMPLATE.fullmatch(text):
        return (
            "must be one folder name with {db_id} in it, such as db={db_id:05d}: "
            "only letters, digits and _ = . -"
        )
    return f"may have at most {_LONGEST} characters" if len(text) > _LONGEST else None
