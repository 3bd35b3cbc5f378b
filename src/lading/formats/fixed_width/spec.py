"""A fixed-width spec: where the columns of a line are, and which lines are records.

    columns:
      - {name: ship, start: 0, length: 12}
      - {name: tonnes, start: 12, length: 8, type: bigint}
    record_type_filter: {position: 20, length: 2, value: "01"}

The spec is the truth about these tables: it is part of the recipe, and their schema file is a copy.
"""

from __future__ import annotations

from pathlib import Path

from lading.config.section import Section
from lading.config.types import canonical_type
from lading.config.yaml import read_lines
from lading.errors import ConfigError
from lading.formats.drift import RESERVED
from lading.formats.types import is_nested
from lading.model import Column, Field, Layout
from lading.words import count_words

_COLUMN_KEYS = ("name", "start", "length", "type", "trim")
_FILTER_KEYS = ("position", "length", "value")


def load_layout(project: Path, spec: str) -> Layout:
    """Read and check a spec of the project; ConfigError lists everything that is wrong with it."""
    path = (project / spec).resolve()
    if not path.is_relative_to(project.resolve()):
        raise ConfigError(
            f"the spec {spec!r} is outside the project {project}",
            hint="copy the file into the project",
            file=str(path),
        )
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(
            f"the spec {path} can't be read: {getattr(error, 'strerror', None) or error}",
            hint="check `spec` in lading.yaml; it must be readable UTF-8",
            file=str(path),
        ) from error
    root, problems = read_lines(text)
    section = Section(root, "", ("columns", "record_type_filter"), problems) if root else None
    layout = Layout(_fields(section), _filter(section)) if section else None
    if problems or layout is None:
        lines = [
            f"{spec}:{problem.line}: {problem.key + ': ' if problem.key else ''}{problem.text}"
            for problem in sorted(dict.fromkeys(problems), key=lambda one: (one.line, one.key))
        ]
        raise ConfigError("\n".join(lines), hint=f"fix it in {path}; nothing was run", file=str(path))
    return layout


def layout_columns(layout: Layout) -> tuple[Column, ...]:
    return tuple(Column(field.name, field.type) for field in layout.fields)


def _fields(section: Section) -> tuple[Field, ...]:
    listed = section.lines.get("columns")
    if listed is None or not isinstance(listed.value, list) or not listed.value:
        section.complain("columns", "must list the columns: - {name: ship, start: 0, length: 12}")
        return ()
    fields: list[Field] = []
    for number, line in enumerate(listed.value):
        one = Section(line, f"columns[{number}]", _COLUMN_KEYS, section.problems)
        field = _field(one)
        if field is None:
            continue
        if any(field.name == other.name for other in fields):
            one.complain("name", f"there are two columns named {field.name!r}; rename one of them")
        fields.append(field)
    return tuple(fields)


def _field(one: Section) -> Field | None:
    name = one.checked("name", _name_problem, required=True)
    start, length = _number(one, "start", 0), _number(one, "length", 1)
    dtype = one.checked("type", _type_problem)
    trim = one.flag("trim")
    if name is None or start is None or length is None:
        return None
    return Field(name, start, length, canonical_type(dtype or "string"), True if trim is None else trim)


def _filter(section: Section) -> tuple[int, int, str] | None:
    if "record_type_filter" not in section.lines:
        return None
    one = section.section("record_type_filter", _FILTER_KEYS)
    position, length = _number(one, "position", 0), _number(one, "length", 1)
    value = one.text("value", required=True)
    if value is not None and length is not None and len(value) != length:
        one.complain("value", f"has {count_words(len(value), 'character')}, but `length` is {length}")
    return None if position is None or length is None or value is None else (position, length, value)


def _number(section: Section, name: str, least: int) -> int | None:
    line = section.lines.get(name)
    if line is None:
        section.complain(name, "is missing")
        return None
    if isinstance(line.value, int) and not isinstance(line.value, bool) and line.value >= least:
        return line.value
    section.complain(name, f"must be a whole number, {least} or more")
    return None


def _name_problem(text: str) -> str | None:
    if text in RESERVED:
        return f"{text} is reserved for lading; choose another name"
    return None if text.strip() else "is empty"


def _type_problem(text: str) -> str | None:
    try:
        kind = canonical_type(text)
    except ValueError as error:
        return str(error)
    return f"{kind} can't be read from text" if is_nested(kind) or kind == "binary" else None
