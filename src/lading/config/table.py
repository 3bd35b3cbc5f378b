"""One table's section of lading.yaml -> TableConfig."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Literal, cast

from lading.config.archives import is_bucket, password_file, preprocess
from lading.config.checks import checks_of, max_bad_of, on_bad_of, refuse_unplaceable
from lading.config.columns import columns_of, naming_of
from lading.config.derived import derived_of
from lading.config.gate import gate
from lading.config.options import format_of, read_options, spec_of
from lading.config.patterns import names_of, re2_of
from lading.config.policy import policy_of
from lading.config.project import TableConfig
from lading.config.section import Section
from lading.config.serve import serve
from lading.config.stores import almost_url, mistyped_url, scheme_of
from lading.config.yaml import Line
from lading.layout.project import CACHE, OBJECTS
from lading.layout.table import SOURCE
from lading.model import Check, Format

TABLE_KEYS = (
    "from",
    "sql",
    "slots",
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
    "columns",
    "types",
    "names",
    "gate",
    "serve",
    "iceberg",
)

_NO_FILES: Format = "parquet"  # a table made of tables reads no files; its rows have types of their own
_DURATION = re.compile(r"[1-9][0-9]*[smhd]")
_TRANSFORM = re.compile(r"(?P<file>[^:]+\.py):(?P<function>[A-Za-z_][A-Za-z0-9_]*)")
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")


def table_config(project: Path, name: str, section: Section, defaults: tuple[Check, ...]) -> TableConfig:
    derived = derived_of(section)
    fmt = cast(Format, format_of(section)) if derived is None else _NO_FILES
    root = section.checked("root", _root_problem) or "."
    bucket = is_bucket(root)
    order_by = section.text("order_by")
    if "bucket_size" in section.lines and not order_by:
        section.complain("bucket_size", "needs order_by: rows are put into buckets by the order column")
    on_bad, checks = on_bad_of(section), checks_of(section, defaults)
    per = cast(Literal["file", "table"], section.choice("per", ("file", "table")))
    refuse_unplaceable(section, checks, on_bad, per)
    rules = columns_of(section, fmt)
    policy = policy_of(section, fmt, rules)
    names = section.checked("columns_from_name", _name_pattern_problem)
    if names is not None and fmt in ("json", "fixed_width") and _has_value_group(names):
        section.complain("columns_from_name", "`value` is Spark's own name for a line; choose another name")
    return TableConfig(
        name=name,
        root=project / CACHE / OBJECTS / name if bucket else _below(project, root),
        path=section.checked("path", _glob_problem, required=derived is None) or "",
        format=fmt,
        spec=spec_of(section, fmt) if derived is None else None,
        read_options=read_options(section, fmt) if derived is None else {},
        columns_from_name=names,
        order_by=order_by,
        bucket_size=_bucket_size(section),
        fingerprint=cast(Literal["fast", "full"], section.choice("fingerprint", ("fast", "full"))),
        transform=section.checked("transform", _transform_problem),
        per=per,
        on_bad=on_bad,
        max_bad=max_bad_of(section, on_bad, policy),
        checks=checks,
        policy=policy,
        naming=naming_of(section, fmt, rules),
        rules=rules,
        url=root.rstrip("/") if bucket else None,
        inside=section.checked("inside", _glob_problem),
        password_file=password_file(section, project),
        preprocess=preprocess(section),
        replace=cast(
            Literal["auto", "rewrite", "minus"], section.choice("replace", ("auto", "rewrite", "minus"))
        ),
        gate=gate(section),
        serve=serve(section),
        iceberg=section.flag("iceberg") is not False,
        derived=derived,
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
        "bucket_size", f"{_shown(line)} is neither a number (100) nor a duration (15m, 12h, 30d)"
    )
    return None


def _root_problem(text: str) -> str | None:
    if is_bucket(text):
        plain = re.fullmatch(r"[a-z0-9]+://[^/@?#]+(?:/[^?#]*)?", text)
        return None if plain else f"write it as {scheme_of(text)}://bucket/prefix"
    if _URL.match(text):
        return "roots other than a folder, s3://, gs:// and az:// aren't supported"
    if almost_url(text):
        return "is neither a folder nor a URL; write a folder or s3://bucket/prefix"
    return None if text.strip() else "is empty; name a folder"


def _glob_problem(text: str) -> str | None:
    if not text.strip():
        return "is empty; give a pattern such as 'voyages/*.csv'"
    if text.startswith(("/", "~")) or _URL.match(text) or mistyped_url(text):
        return "must be relative to the root; set root: to the folder"
    if text.endswith("/"):
        return "names no file; end it with a file name such as '*.csv'"
    if ".." in text.split("/"):
        return "must stay inside the root; set root: to the folder"
    return None


def _name_pattern_problem(text: str) -> str | None:
    try:
        names = names_of(text)
        re2_of(text)
    except ValueError as error:
        return str(error)
    if not names:
        return "has no named group; write (?P<port>[a-z]+) for a column called port"
    if SOURCE in names:
        return f"{SOURCE} is reserved for lading; choose another name"
    return None


def _has_value_group(pattern: str) -> bool:
    """Spark's names know no case."""
    return any(name.lower() == "value" for name in re.compile(pattern).groupindex)


def _transform_problem(text: str) -> str | None:
    match = _TRANSFORM.fullmatch(text)
    if not match:
        return "must be a file in the project and a function in it: transforms/voyages.py:clean"
    path = os.path.normpath(match["file"])
    if os.path.isabs(path) or path.startswith(("..", "~")):
        return "must be inside the project"
    return None


def _below(project: Path, text: str) -> Path:
    return Path(os.path.abspath(project / Path(text).expanduser()))


def _shown(line: Line) -> str:
    return repr(line.text) if line.text is not None else "this"
