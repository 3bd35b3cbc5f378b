"""lading.yaml -> typed config; the only place that sees dicts from YAML.

The file is checked whole before anything runs, and every complaint is collected: fixing a config one
error at a time, with a Spark start in between, is nobody's idea of an afternoon.
"""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, cast

from lading.config_lines import Line, Problem, read_lines
from lading.config_options import READ_OPTIONS, read_options
from lading.config_section import Section
from lading.errors import ConfigError, NotFound

FILE_NAME = "lading.yaml"

Format = Literal["csv", "tsv", "json", "parquet"]

PROJECT_KEYS = ("warehouse", "spark", "tables")
SPARK_KEYS = ("master", "conf")
TABLE_KEYS = (
    "root",
    "path",
    "format",
    "read_options",
    "columns_from_name",
    "order_by",
    "bucket_size",
    "fingerprint",
    "transform",
    "per",
    "on_bad",
    "drift",
)

_TABLE_NAME = re.compile(r"[a-z][a-z0-9_]*")
_DURATION = re.compile(r"[1-9][0-9]*[smhd]")
_TRANSFORM = re.compile(r"(?P<file>[^:]+\.py):(?P<function>[A-Za-z_][A-Za-z0-9_]*)")
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")


@dataclass(frozen=True, slots=True)
class SparkConfig:
    """Where Spark runs and what it is told."""

    master: str = "local[*]"
    conf: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TableConfig:
    """One table of lading.yaml."""

    name: str
    root: Path  # absolute
    path: str  # a glob, relative to the root
    format: Format
    read_options: dict[str, Any] = field(default_factory=dict)
    columns_from_name: str | None = None
    order_by: str | None = None
    bucket_size: int | str | None = None
    fingerprint: Literal["fast", "full"] = "fast"
    transform: str | None = None  # "transforms/voyages.py:clean", relative to the project
    per: Literal["file", "table"] = "file"
    on_bad: Literal["fail"] = "fail"
    drift: Literal["strict"] = "strict"


@dataclass(frozen=True, slots=True)
class Config:
    """A project: a folder with lading.yaml."""

    project: Path  # absolute
    warehouse: Path  # absolute
    cache: Path
    spark: SparkConfig
    tables: dict[str, TableConfig]
    file: Path

    def table(self, name: str) -> TableConfig:
        if name in self.tables:
            return self.tables[name]
        near = difflib.get_close_matches(name, self.tables, n=len(self.tables) or 1, cutoff=0.0)
        raise NotFound(
            f"there is no table {name!r} in {self.file}",
            hint=f"the tables are: {', '.join(near)}",
            table=name,
            file=str(self.file),
        )

    def table_dir(self, name: str) -> Path:
        return self.warehouse / name

    def source_manifest(self, name: str) -> Path:
        return self.project / "manifest" / f"{name}.json"

    def schema_file(self, name: str) -> Path:
        return self.project / "schema" / f"{name}.yaml"


def load(project: Path) -> Config:
    """Read and check `project`/lading.yaml; ConfigError lists everything that is wrong with it."""
    project = Path(os.path.abspath(project))
    file = project / FILE_NAME
    root, problems = read_lines(_text_of(file))
    config = _config(project, file, Section(root, "", PROJECT_KEYS, problems)) if root else None
    if problems or config is None:
        raise _config_error(file, problems)
    return config


def _text_of(file: Path) -> str:
    try:
        return file.read_bytes().decode("utf-8-sig")
    except FileNotFoundError:
        raise ConfigError(
            f"there is no {FILE_NAME} in {file.parent}",
            hint="`lading init` writes one here; `lading -C DIR` works on the project in DIR",
            file=str(file),
        ) from None
    except UnicodeDecodeError as error:
        raise ConfigError(
            f"{file} is not UTF-8 (byte {error.start})", hint="save it as UTF-8", file=str(file)
        ) from None
    except OSError as error:
        raise ConfigError(f"{file}: {error.strerror}", hint="check the file", file=str(file)) from error


def _config_error(file: Path, problems: list[Problem]) -> ConfigError:
    lines = [
        f"{FILE_NAME}:{problem.line}: {problem.key + ': ' if problem.key else ''}{problem.text}"
        for problem in sorted(dict.fromkeys(problems), key=lambda problem: (problem.line, problem.key))
    ]
    keys = [problem.key.split(".") for problem in problems]
    tables = {key[1] if key[0] == "tables" and len(key) > 1 else None for key in keys}
    hint = "correct the line" if len(lines) == 1 else f"correct these {len(lines)} lines"
    return ConfigError(
        "\n".join(lines),
        hint=f"{hint} in {file}; nothing was run",
        table=tables.pop() if len(tables) == 1 else None,
        file=str(file),
    )


def _config(project: Path, file: Path, section: Section) -> Config:
    spark = section.section("spark", SPARK_KEYS)
    warehouse = section.checked("warehouse", _no_url("warehouses")) or "warehouse"
    return Config(
        project=project,
        warehouse=_below(project, warehouse),
        cache=project / ".lading_cache",
        spark=SparkConfig(master=spark.text("master") or "local[*]", conf=_spark_conf(spark)),
        tables=_tables(project, section),
        file=file,
    )


def _tables(project: Path, section: Section) -> dict[str, TableConfig]:
    tables = section.section("tables", None)
    if not tables.lines:
        section.complain("tables", "name at least one table")
    found = {}
    for name in tables.lines:
        if not _TABLE_NAME.fullmatch(name):
            tables.complain(name, "a table's name is lower case letters, digits and '_', a letter first")
        found[name] = _table(project, name, tables.section(name, TABLE_KEYS))
    return found


def _table(project: Path, name: str, section: Section) -> TableConfig:
    format = cast(Format, section.choice("format", tuple(READ_OPTIONS), required=True))
    root = section.checked("root", _no_url("roots")) or "."
    order_by = section.text("order_by")
    if "bucket_size" in section.lines and not order_by:
        section.complain("bucket_size", "needs order_by: rows are put into buckets by the order column")
    return TableConfig(
        name=name,
        root=_below(project, root),
        path=section.checked("path", _glob_problem, required=True) or "",
        format=format,
        read_options=read_options(section, format),
        columns_from_name=section.checked("columns_from_name", _name_pattern_problem),
        order_by=order_by,
        bucket_size=_bucket_size(section),
        fingerprint=cast(Literal["fast", "full"], section.choice("fingerprint", ("fast", "full"))),
        transform=section.checked("transform", _transform_problem),
        per=cast(Literal["file", "table"], section.choice("per", ("file", "table"))),
        on_bad=cast(Literal["fail"], section.choice("on_bad", ("fail",))),
        drift=cast(Literal["strict"], section.choice("drift", ("strict",))),
    )


def _bucket_size(section: Section) -> int | str | None:
    line = section.lines.get("bucket_size")
    if line is None:
        return None
    if isinstance(line.value, int) and not isinstance(line.value, bool) and line.value > 0:
        return line.value
    if isinstance(line.value, str) and _DURATION.fullmatch(line.value):
        return line.value
    section.complain(
        "bucket_size", f"{_shown(line)} is neither a number (100) nor a span of time (15m, 12h, 30d)"
    )
    return None


def _spark_conf(spark: Section) -> dict[str, str]:
    conf = spark.section("conf", None)
    found = {}
    for name, line in conf.lines.items():
        if not name.startswith("spark."):
            conf.complain(name, "a Spark setting's name starts with 'spark.'")
        elif name == "spark.master":
            conf.complain(name, "write it as spark: {master: …}")
        elif line.text is None or line.value is None:
            conf.complain(name, "must be text, a number, true or false")
        else:
            found[name] = str(line.value).lower() if isinstance(line.value, bool) else line.text
    return found


def _no_url(what: str) -> Callable[[str], str | None]:
    def problem(text: str) -> str | None:
        if _URL.match(text):
            return f"object-store {what} aren't supported by this version; use a folder"
        return None if text.strip() else "is empty; name a folder"

    return problem


def _glob_problem(text: str) -> str | None:
    if not text.strip():
        return "is empty; give a pattern such as 'voyages/*.csv'"
    if text.startswith(("/", "~")) or _URL.match(text):
        return "must be relative to the root; set root: to the folder"
    if text.endswith("/"):
        return "names no file; end it with a file name such as '*.csv'"
    if ".." in text.split("/"):
        return "must stay inside the root; set root: to the folder"
    return None


def _name_pattern_problem(text: str) -> str | None:
    try:
        pattern = re.compile(text)
    except re.error as error:
        return f"not a regular expression: {error}"
    if not pattern.groupindex:
        return "has no named group; write (?P<port>[a-z]+) for a column called port"
    if "_source" in pattern.groupindex:
        return "_source is lading's own column; choose another name"
    return None


def _transform_problem(text: str) -> str | None:
    match = _TRANSFORM.fullmatch(text)
    if not match:
        return "must be a file of the project and a function in it: transforms/voyages.py:clean"
    path = os.path.normpath(match["file"])
    if os.path.isabs(path) or path.startswith(("..", "~")):
        return "must be inside the project"
    return None


def _below(project: Path, text: str) -> Path:
    return Path(os.path.abspath(project / Path(text).expanduser()))


def _shown(line: Line) -> str:
    return repr(line.text) if line.text is not None else "this"
