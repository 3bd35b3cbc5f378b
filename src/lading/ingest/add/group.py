"""One table or several: files belong together if one set of read options and columns does for all of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from lading.errors import SourceError
from lading.formats.infer.columns import infer
from lading.formats.json.path import path_of
from lading.formats.opening import open_plain
from lading.formats.sniff.json_rows import has_rows_at
from lading.ingest.add.look import FileLook
from lading.model import DELIMITERS

_TOGETHER = 0.5  # share of JSON's keys that two files have in common
_PART = ("header", "delimiter", "escape", "skip")  # options that part files; others can be joined


@dataclass(frozen=True, slots=True)
class Group:
    """Files of one shape, and the options that all of them are read with."""

    files: tuple[FileLook, ...]
    options: dict[str, Any]
    because: dict[str, str]

    @property
    def first(self) -> FileLook:
        return self.files[0]


def groups_of(looks: Sequence[FileLook]) -> list[Group]:
    """In the order of their first files."""
    groups: list[list[FileLook]] = []
    for look in looks:
        look = with_names(with_rows_of(look, looks))
        group = next((one for one in groups if belongs(look, one)), None)
        if group is None:
            groups.append([look])
        else:
            group.append(look)
    return [_joined(group) for group in groups]


def with_rows_of(look: FileLook, others: Sequence[FileLook]) -> FileLook:
    """A document with a row or none doesn't tell by itself where its rows lie; others of its kind do."""
    if look.format != "json" or "records" in look.options:
        return look
    known = {path_of(other.options): other for other in others if "records" in other.options}
    for path, other in known.items():
        with open_plain(look.found.path) as plain:
            if has_rows_at(plain, path):
                return replace(look, options=other.options, because=other.because)
    return look


def with_names(look: FileLook) -> FileLook:
    """With its columns; those of delimited text are known already."""
    if look.format in DELIMITERS:
        return look
    try:
        inferred = infer([look.found], fmt=look.format, read_options=look.options)
    except SourceError:
        if "records" not in look.options:
            raise
        return look  # an array without a row goes with any others at its path
    return replace(look, names=tuple(column.name for column in inferred.columns))


def belongs(look: FileLook, group: Sequence[FileLook]) -> bool:
    """Whether one set of options does for the file as well."""
    first = group[0]
    if look.format != first.format:
        return False
    mine, theirs = set(look.names), set(first.names)
    if look.format == "json":
        if any(look.options.get(name) != first.options.get(name) for name in ("multiline", "records")):
            return False
        return len(mine & theirs) >= _TOGETHER * min(len(mine), len(theirs))
    if look.format not in DELIMITERS:
        same = all(look.options.get(name) == first.options.get(name) for name in ("sheet", "header"))
        return same and mine == theirs
    if any(look.options.get(name) != first.options.get(name) for name in _PART):
        return False
    if sorted(look.names) != sorted(first.names) and (look.options["header"] or len(mine) != len(theirs)):
        return False
    quotes = {one.options.get("quote") for one in (look, *group) if one.quoted}
    encodings = {one.options.get("encoding") for one in (look, *group) if not one.ascii}
    comments = {one.options["comment"] for one in (look, *group) if "comment" in one.options}
    return len(quotes) <= 1 and len(encodings) <= 1 and len(comments) <= 1


def _joined(group: Sequence[FileLook]) -> Group:
    """Whatever one of the files needs, all are read with."""
    options: dict[str, Any] = {}
    because: dict[str, str] = {}
    several = len(group) > 1
    for look in group:
        for name, value in look.options.items():
            if name not in options:
                options[name] = value
                why = look.because.get(name)
                if why:
                    because[name] = f"{look.found.key}: {why}" if several and look is not group[0] else why
    for name in ("encoding", "format", "delimiter"):
        if name in group[0].because:
            because.setdefault(name, group[0].because[name])
    return Group(tuple(group), options, because)
