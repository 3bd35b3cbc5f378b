"""`lading add`: tables from files that lie below the project, written into lading.yaml with the evidence."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from lading import clock
from lading.config.file import name_problem, parse
from lading.config.insert import with_tables
from lading.config.project import Config
from lading.errors import ConfigError, LadingError, SourceError
from lading.ingest.add.group import Group, belongs, groups_of, with_names, with_rows_of
from lading.ingest.add.look import look_at
from lading.ingest.add.paths import globs_of, name_pattern, table_name
from lading.ingest.add.table import TableLook, table_of
from lading.ingest.add.text import table_text
from lading.ingest.table_run import now_text
from lading.layout.project import CONFIG, schema_file
from lading.model import Column, FoundFile
from lading.sources.discover import discover
from lading.sources.glob import compile_glob
from lading.sources.names import columns_from_name, name_columns
from lading.sources.schema import TableSchema, combined_hash, save_schema
from lading.storage.folder import write_atomic

_OTHERS = 20  # files that a pattern also matches, and that are looked at


@dataclass(frozen=True, slots=True)
class AddedTable:
    """A table, as it stands in lading.yaml."""

    name: str
    path: str
    look: TableLook
    text: str
    others: int  # files that the pattern matches beside those that were given
    columns_from_name: str | None = None


@dataclass(frozen=True, slots=True)
class Added:
    file: Path
    tables: tuple[AddedTable, ...]
    empty: tuple[str, ...] = ()  # keys of files that hold nothing
    written: bool = False
    problem: ConfigError | None = None  # why it would not be written


def add(project: Path, files: Sequence[Path], *, table: str | None = None, write: bool = True) -> Added:
    """Look at the files and write a table for each shape of them; all or nothing."""
    project = Path(os.path.abspath(project))
    before, text = _present(project)
    found = _below(project, files)
    if before is not None and table is None:
        _refuse_known(before, found)
    looks = {one.key: look_at(one) for one in found}
    empty = tuple(key for key, look in looks.items() if look is None)
    groups = groups_of([look for look in looks.values() if look is not None])
    if not groups:
        raise SourceError(
            f"{', '.join(empty[:3])} {'is' if len(empty) == 1 else 'are'} empty",
            hint="add a file once it holds a record",
            file=empty[0],
        )
    if table is not None and len(groups) > 1:
        raise _several(table, [group.first.found.key for group in groups])
    taken = set(before.tables) if before is not None else set()
    if table is not None and (problem := name_problem(table)):
        raise ConfigError(problem, hint="choose another name", table=table)
    if table is not None and table in taken:
        raise ConfigError(
            f"there is already a table {table!r} in {CONFIG}", hint="choose another name", table=table
        )
    tables: list[AddedTable] = []
    for group in groups:
        mine = {look.found.key for look in group.files}
        name = table or table_name(sorted(mine), taken | {one.name for one in tables})
        tables.append(_table(project, name, group, sorted(set(looks) - mine - set(empty))))
    added = Added(project / CONFIG, tuple(tables), empty)
    try:
        result = with_tables(text, {one.name: one.text for one in tables})
        _check(project, before, result, tables)
    except ConfigError as error:
        if write:
            raise
        return replace(added, problem=error)
    if write:
        _write(project, result, tables)
    return replace(added, written=write)


def _present(project: Path) -> tuple[Config | None, str | None]:
    """The config before, if it has tables, and its text, if there is one."""
    try:
        text = (project / CONFIG).read_bytes().decode("utf-8")
    except FileNotFoundError:
        return None, None
    except UnicodeDecodeError as error:
        raise ConfigError(f"{CONFIG} is not UTF-8 (byte {error.start})", hint="save it as UTF-8") from None
    try:
        return parse(project, text.removeprefix("\ufeff")), text
    except ConfigError as error:
        if error.message.endswith(("tables: name at least one table", "the file is empty")):
            return None, text
        raise


def _below(project: Path, files: Sequence[Path]) -> list[FoundFile]:
    """The files with their keys, each once, in the order of their keys."""
    found: dict[str, FoundFile] = {}
    for given in files:
        path = given if given.exists() or given.is_absolute() else project / given
        if path.is_dir():
            raise SourceError(
                f"{given} is a folder",
                hint=f"name the files in it: lading add {given}/*.csv",
                file=str(given),
            )
        if not path.is_file():
            raise SourceError(f"there is no file {given}", hint="check the name", file=str(given))
        key = _key(project, path)
        status = path.stat()
        found[key] = FoundFile(key, os.path.join(project, key), status.st_size, status.st_mtime_ns, False)
    return [found[key] for key in sorted(found)]


def _key(project: Path, path: Path) -> str:
    for top, file in ((project, os.path.abspath(path)), (os.path.realpath(project), os.path.realpath(path))):
        key = os.path.relpath(file, top)
        if not key.startswith(".."):
            return key.replace(os.sep, "/")
    raise SourceError(
        f"{path} is not below {project}",
        hint=f"copy or link it into the project, choose the project with `lading -C DIR add`, or write the "
        f"table by hand with `root: {os.path.dirname(os.path.abspath(path))}`",
        file=str(path),
    )


def _refuse_known(config: Config, found: Sequence[FoundFile]) -> None:
    for one in found:
        for name, table in config.tables.items():
            if table.derived is not None:
                continue
            key = os.path.relpath(one.path, table.root)
            if table.url is None and not key.startswith("..") and compile_glob(table.path).match(key):
                raise ConfigError(
                    f"{one.key} already belongs to table {name!r}",
                    hint="`lading run` reads it; `--table NAME` makes another table of it",
                    table=name,
                    file=one.key,
                )


def _several(table: str, firsts: Sequence[str]) -> ConfigError:
    return ConfigError(
        f"the files are of {len(firsts)} shapes, so they make several tables, not one called {table!r}: "
        f"{', '.join(firsts[:3])} differ{' and others' if len(firsts) > 3 else ''}",
        hint="leave out --table, or add the files of each shape by themselves",
        table=table,
    )


def _table(project: Path, name: str, group: Group, others: Sequence[str]) -> AddedTable:
    look = table_of(group)
    keys = [one.key for one in look.files]
    path, matched, remarks = _path(project, group, others)
    remarks = [*look.remarks, *remarks]
    pattern = name_pattern(keys, {column.name for column in look.inferred.columns})
    if pattern is not None:
        try:
            columns_from_name(pattern, matched)
        except SourceError:
            pattern = None  # others that the path matches have other names
    settings: dict[str, Any] = {"path": path, "format": look.format}
    because = dict(look.because)
    more = len(matched) - len(keys)
    if len(keys) > 1:
        because["path"] = f"matches the {len(keys):,} files" + (f" and {more:,} more" if more else "")
    if pattern is not None:
        settings["columns_from_name"] = pattern
        because["columns_from_name"] = f"where the files' names differ, as in {os.path.basename(keys[0])}"
    if look.names is not None:
        because["header"] += f"; {schema_file(name)} names the columns"
    text = table_text(name, settings, look.options, because, remarks)
    return AddedTable(name, path, replace(look, remarks=tuple(remarks)), text, more, pattern)


def _path(project: Path, group: Group, others: Sequence[str]) -> tuple[str, list[FoundFile], list[str]]:
    """The widest pattern that only matches files of the same shape, as far as a look at some of them says."""
    given = {look.found.key: look.found for look in group.files}
    if len(given) == 1:
        return globs_of(list(given))[0], list(given.values()), []
    tried: list[tuple[int, str, list[FoundFile], str]] = []
    for path in globs_of(sorted(given), others):
        matched = list(discover(project, path, now_ns=clock.wall_ns()))
        odd = [one.key for one in _some(matched, given) if not _is_like(one, group)]
        if not odd:
            return path, matched, []
        tried.append((len(matched), path, matched, odd[0]))
    _, path, matched, odd_one = min(tried, key=lambda one: one[0])
    remark = f"the path also matches {odd_one}, which is of another shape: move it, or change the path"
    return path, matched, [remark]


def _some(matched: Sequence[FoundFile], given: Mapping[str, FoundFile]) -> list[FoundFile]:
    others = [one for one in matched if one.key not in given]
    return others[:: max(1, len(others) // _OTHERS)]


def _is_like(found: FoundFile, group: Group) -> bool:
    try:
        look = look_at(found)
        return look is None or belongs(with_names(with_rows_of(look, group.files)), group.files)
    except LadingError:
        return False


def _check(project: Path, before: Config | None, text: str, tables: Sequence[AddedTable]) -> None:
    """The text says what it said before and the new tables, as they were found, or it isn't written."""
    after = parse(project, text.removeprefix("\ufeff"))
    new = {one.name for one in tables}
    kept = {name: table for name, table in after.tables.items() if name not in new}
    same = before is None or replace(after, tables=before.tables) == before
    as_found = all(
        (after.tables[one.name].path, after.tables[one.name].format, after.tables[one.name].read_options)
        == (one.path, one.look.format, one.look.options)
        for one in tables
    )
    if not same or kept != (before.tables if before is not None else {}) or not as_found:
        raise ConfigError(
            f"no table can be put into {CONFIG} without changing what else it says",
            hint="with `--dry-run`, the text is shown and you can paste it yourself",
        )


def _write(project: Path, text: str, tables: Sequence[AddedTable]) -> None:
    """Schemas first: a table without a header needs its own as soon as it is there."""
    for one in tables:
        path = project / schema_file(one.name)
        if one.look.names is None:
            continue
        if path.exists():
            raise ConfigError(
                f"{path} is there already", hint="delete it, or choose another --table", file=str(path)
            )
        inferred = one.look.inferred
        rows = "" if inferred.rows is None else f", {inferred.rows:,} rows"
        looked = f"{inferred.files:,} file{'' if inferred.files == 1 else 's'}{rows}"
        hashed = combined_hash([file.hash for file in one.look.files])
        names = name_columns(one.columns_from_name)
        columns = inferred.columns + tuple(Column(name, "string", inferred=True) for name in names)
        because = inferred.because | dict.fromkeys(names, "string: from the files' names")
        save_schema(path, TableSchema(columns, now_text(), hashed, because, looked))
    write_atomic(Path(os.path.realpath(project / CONFIG)), text.encode())
