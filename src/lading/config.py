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

from lading.config_archives import (
    ArchiveLimits,
    Preprocess,
    archive_limits,
    is_bucket,
    password_file,
    preprocess,
)
from lading.config_checks import checks_of, max_bad_of, on_bad_of, refuse_unplaceable
from lading.config_gate import Gate, gate
from lading.config_lines import Line, Problem, read_lines
from lading.config_options import format_of, read_options, spec_of
from lading.config_section import Section
from lading.config_serve import Serve, serve
from lading.config_stores import PostgresNames, postgres_names, s3_options, store_url, warehouse
from lading.errors import ConfigError, NotFound
from lading.model import Check, OnBad, Place, Threshold

FILE_NAME = "lading.yaml"
CACHE_NAME = ".lading_cache"

Format = Literal["csv", "tsv", "json", "parquet", "fixed_width"]
Drift = Literal["strict", "evolve", "ignore_new"]

PROJECT_KEYS = ("warehouse", "store", "s3", "postgres", "archives", "checks", "spark", "tables")
SPARK_KEYS = ("master", "conf")
TABLE_KEYS = (
    "root",
    "path",
    "inside",
    "password_file",
    "preprocess",
    "format",
    "spec",
    "read_options",
    "columns_from_name",
    "order_by",
    "bucket_size",
    "fingerprint",
    "transform",
    "per",
    "replace",
    "on_bad",
    "max_bad",
    "checks",
    "drift",
    "gate",
    "serve",
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
    on_bad: OnBad = "fail"
    drift: Drift = "strict"
    url: str | None = None  # s3://bucket/prefix: then `root` is where its objects are copied to
    inside: str | None = None  # a glob, relative to the top of each archive
    password_file: Path | None = None
    preprocess: Preprocess | None = None
    replace: Literal["auto", "rewrite", "minus"] = "auto"  # what happens to parts that hold other rows too
    gate: Gate | None = None
    serve: Serve | None = None
    checks: tuple[Check, ...] = ()  # the project's included
    max_bad: Threshold | None = None  # beyond it, `on_bad: quarantine` stops the run
    spec: str | None = None  # "specs/ships.yaml", relative to the project: where fixed-width columns are


@dataclass(frozen=True, slots=True)
class Config:
    """A project: a folder with lading.yaml."""

    project: Path  # absolute
    warehouse: Path | Place  # absolute, or in a bucket
    cache: Path
    spark: SparkConfig
    tables: dict[str, TableConfig]
    file: Path
    store: str | None = field(default=None, repr=False)  # a URL or an absolute path; None: with the data
    s3: dict[str, str] = field(default_factory=dict, repr=False)  # may hold keys: never shown
    postgres: PostgresNames = field(default_factory=PostgresNames)
    archives: ArchiveLimits = field(default_factory=ArchiveLimits)

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

    def place(self, name: str) -> Path | Place:
        """Where a table lies."""
        warehouse = self.warehouse
        return warehouse.below(name) if isinstance(warehouse, Place) else warehouse / name

    def table_dir(self, name: str) -> Path:
        """The same, for what can be done to tables in folders only."""
        place = self.place(name)
        if isinstance(place, Place):
            raise ConfigError(
                f"{place} is in a bucket: this works on tables in a folder only",
                hint="run, merge and all readers work there; copy the table to a folder for the rest",
                table=name,
            )
        return place

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
    tables = _tables(project, section)
    s3 = s3_options(section)
    return Config(
        project=project,
        warehouse=warehouse(project, section, s3, project / CACHE_NAME),
        cache=project / CACHE_NAME,
        spark=SparkConfig(master=spark.text("master") or "local[*]", conf=_spark_conf(spark)),
        tables=tables,
        file=file,
        store=store_url(project, section),
        s3=s3,
        postgres=postgres_names(section, len(tables)),
        archives=archive_limits(section),
    )


def _tables(project: Path, section: Section) -> dict[str, TableConfig]:
    tables = section.section("tables", None)
    defaults = checks_of(section)
    if not tables.lines:
        section.complain("tables", "name at least one table")
    found = {}
    for name in tables.lines:
        if not _TABLE_NAME.fullmatch(name):
            tables.complain(name, "a table's name is lower case letters, digits and '_', a letter first")
        found[name] = _table(project, name, tables.section(name, TABLE_KEYS), defaults)
    return found


def _table(project: Path, name: str, section: Section, defaults: tuple[Check, ...]) -> TableConfig:
    format = cast(Format, format_of(section))
    root = section.checked("root", _root_problem) or "."
    bucket = is_bucket(root)
    order_by = section.text("order_by")
    if "bucket_size" in section.lines and not order_by:
        section.complain("bucket_size", "needs order_by: rows are put into buckets by the order column")
    on_bad, checks = on_bad_of(section), checks_of(section, defaults)
    per = cast(Literal["file", "table"], section.choice("per", ("file", "table")))
    refuse_unplaceable(section, checks, on_bad, per)
    drift = cast(Drift, section.choice("drift", ("strict", "evolve", "ignore_new")))
    if format == "fixed_width" and drift != "strict":
        section.complain("drift", "the columns of fixed-width files are the spec's; leave it out")
    return TableConfig(
        name=name,
        root=project / CACHE_NAME / "objects" / name if bucket else _below(project, root),
        path=section.checked("path", _glob_problem, required=True) or "",
        format=format,
        spec=spec_of(section, format),
        read_options=read_options(section, format),
        columns_from_name=section.checked("columns_from_name", _name_pattern_problem),
        order_by=order_by,
        bucket_size=_bucket_size(section),
        fingerprint=cast(Literal["fast", "full"], section.choice("fingerprint", ("fast", "full"))),
        transform=section.checked("transform", _transform_problem),
        per=per,
        on_bad=on_bad,
        max_bad=max_bad_of(section, on_bad),
        checks=checks,
        drift=drift,
        url=root.rstrip("/") if bucket else None,
        inside=section.checked("inside", _glob_problem),
        password_file=password_file(section, project),
        preprocess=preprocess(section),
        replace=cast(
            Literal["auto", "rewrite", "minus"], section.choice("replace", ("auto", "rewrite", "minus"))
        ),
        gate=gate(section),
        serve=serve(section),
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


def _root_problem(text: str) -> str | None:
    if is_bucket(text):
        return None if re.fullmatch(r"s3://[^/@?#]+(?:/[^?#]*)?", text) else "write it as s3://bucket/prefix"
    return _no_url("roots other than s3://")(text)


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
