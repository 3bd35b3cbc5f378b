"""lading.yaml -> typed config; the only place that sees dicts from YAML.

The file is checked whole before anything runs, and every complaint is collected: fixing a config one
error at a time, with a Spark start in between, is nobody's idea of an afternoon.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from lading.config.archives import archive_limits
from lading.config.checks import checks_of
from lading.config.clean import keep_of
from lading.config.derived import check_graph
from lading.config.project import Config, SparkConfig, TableConfig
from lading.config.section import Section
from lading.config.signals import metrics_file, openlineage_of
from lading.config.stores import postgres_names, s3_options, store_url, warehouse
from lading.config.table import TABLE_KEYS, table_config
from lading.config.yaml import Problem, read_lines
from lading.errors import ConfigError
from lading.layout.project import CACHE, CONFIG
from lading.model import Place

PROJECT_KEYS = (
    "warehouse", "store", "s3", "postgres", "archives", "checks", "clean", "spark", "metrics", "openlineage",
    "tables",
)  # fmt: skip
SPARK_KEYS = ("master", "conf", "in_process_below")
_TABLE_NAME = re.compile(r"[a-z][a-z0-9_]*")
_LONGEST_NAME = 100  # it is part of the names of folders, of files beside others, and of tables in PostgreSQL


def load(project: Path) -> Config:
    """Read and check `project`/lading.yaml; ConfigError lists everything that is wrong with it."""
    project = Path(os.path.abspath(project))
    try:
        str(project).encode()
    except UnicodeEncodeError:
        raise ConfigError(
            f"the project's path {os.fsencode(project)!r} is not valid UTF-8",
            hint="rename the folder; paths in manifests must be text",
        ) from None
    return parse(project, _text_of(project / CONFIG))


def parse(project: Path, text: str) -> Config:
    """The config that `text` would be as the project's lading.yaml."""
    file = project / CONFIG
    root, problems = read_lines(text)
    config = _config(project, file, Section(root, "", PROJECT_KEYS, problems)) if root else None
    if problems or config is None:
        raise _config_error(file, problems)
    return config


def _text_of(file: Path) -> str:
    try:
        return file.read_bytes().decode("utf-8-sig")
    except FileNotFoundError:
        raise ConfigError(
            f"there is no {CONFIG} in {file.parent}",
            hint="create one with `lading init`, or use `lading -C DIR` for the project in DIR",
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
        f"{CONFIG}:{problem.line}: {problem.key + ': ' if problem.key else ''}{problem.text}"
        for problem in sorted(dict.fromkeys(problems), key=lambda problem: (problem.line, problem.key))
    ]
    keys = [problem.key.split(".") for problem in problems]
    tables = {key[1] if key[0] == "tables" and len(key) > 1 else None for key in keys}
    hint = "fix the line" if len(lines) == 1 else f"fix these {len(lines)} lines"
    return ConfigError(
        "\n".join(lines),
        hint=f"{hint} in {file}; nothing was run",
        table=tables.pop() if len(tables) == 1 else None,
        file=str(file),
    )


def _config(project: Path, file: Path, section: Section) -> Config:
    spark = section.section("spark", SPARK_KEYS)
    s3 = s3_options(section)
    place = warehouse(project, section, s3, project / CACHE)
    tables = _tables(project, section, place)
    return Config(
        project=project,
        warehouse=place,
        cache=project / CACHE,
        spark=SparkConfig(
            master=spark.text("master") or "local[*]",
            conf=_spark_conf(spark),
            in_process_below=_in_process_below(spark),
        ),
        tables=tables,
        file=file,
        store=store_url(project, section),
        s3=s3,
        postgres=postgres_names(section, len(tables)),
        archives=archive_limits(section),
        clean=keep_of(section),
        metrics_file=metrics_file(project, section),
        openlineage=openlineage_of(project, section),
    )


def _tables(project: Path, section: Section, place: Place) -> dict[str, TableConfig]:
    tables = section.section("tables", None)
    defaults = checks_of(section)
    if not tables.lines:
        section.complain("tables", "name at least one table")
    found = {}
    for name in tables.lines:
        if problem := name_problem(name):
            tables.complain(name, problem)
        found[name] = table_config(project, name, tables.section(name, TABLE_KEYS), defaults)
    check_graph({name: table.derived for name, table in found.items()}, tables, project, place)
    return found


def _in_process_below(spark: Section) -> int:
    line = spark.lines.get("in_process_below")
    return 0 if line is not None and line.value == 0 else spark.size("in_process_below") or 0


def name_problem(name: str) -> str | None:
    """Why a table can't be called so."""
    if not _TABLE_NAME.fullmatch(name):
        return "a table's name must be lower-case letters, digits and '_', starting with a letter"
    return (
        None if len(name) <= _LONGEST_NAME else f"a table's name may have at most {_LONGEST_NAME} characters"
    )


def _spark_conf(spark: Section) -> dict[str, str]:
    conf = spark.section("conf", None)
    found = {}
    for name, line in conf.lines.items():
        if not name.startswith("spark."):
            conf.complain(name, "the name of a Spark setting must start with 'spark.'")
        elif name == "spark.master":
            conf.complain(name, "write it as spark: {master: …}")
        elif line.text is None or line.value is None:
            conf.complain(name, "must be text, a number, true or false")
        else:
            found[name] = str(line.value).lower() if isinstance(line.value, bool) else line.text
    return found
