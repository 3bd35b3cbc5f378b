"""`columns:` as a mapping: what a table's columns are, and how the files write them.

columns:
  amount: {type: "decimal(12,2)", from: [Amount, AMT], decimal: ",", null: ["-", n/a]}
  flag: string
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import cast, get_args

from lading.config.names import Naming, alike
from lading.config.options import texts_of
from lading.config.patterns import names_of
from lading.config.section import Section
from lading.config.types import canonical_type
from lading.config.yaml import Line
from lading.layout.table import SOURCE
from lading.model import ColumnRule, Format, NamesPolicy, TypesPolicy

COLUMN_KEYS = (
    "type",
    "from",
    "date_format",
    "timestamp_format",
    "null",
    "decimal",
    "default",
    "types",
)
_EXAMPLE = "amount: {type: bigint}"


def columns_of(table: Section, fmt: Format) -> tuple[ColumnRule, ...]:
    """What `columns:` says of single columns; nothing where it is a word, the policy for names."""
    line = table.lines.get("columns")
    if line is None or not isinstance(line.value, dict):
        return ()
    section = table.section("columns", None)
    if not section.lines:
        table.complain("columns", f"names no column; write {_EXAMPLE}, or remove the key")
    rules = []
    for name in section.lines:
        if problem := _name_problem(name):
            section.complain(name, problem)
        else:
            rules.append(_rule(section, name))
    _refuse_senseless(table, section, rules, fmt)
    return tuple(rules)


def naming_of(table: Section, fmt: Format, rules: tuple[ColumnRule, ...]) -> Naming:
    how = cast(NamesPolicy, table.choice("names", get_args(NamesPolicy)))
    if "names" in table.lines and (why := _nameless(table, fmt)):
        table.complain("names", why)
    if rules:
        _refuse_shared(table.section("columns", None), Naming(how), rules)
    return Naming.of(how, rules)


def _rule(columns: Section, name: str) -> ColumnRule:
    line = columns.lines[name]
    if not isinstance(line.value, dict):
        kind = columns.checked(name, _type_problem)
        return ColumnRule(name, canonical_type(kind) if kind else None, line=line.line)
    section = columns.section(name, COLUMN_KEYS)
    if not section.lines:
        columns.complain(name, f"says nothing; write {_EXAMPLE}, or remove the key")
    kind = section.checked("type", _type_problem)
    return ColumnRule(
        name,
        canonical_type(kind) if kind else None,
        headers=tuple(one for one in texts_of(section, "from", _header_problem) or () if one != name),
        dates=texts_of(section, "date_format"),
        timestamps=texts_of(section, "timestamp_format"),
        nulls=texts_of(section, "null", may_be_empty=True),
        decimal=section.choice("decimal", (".", ",")) if "decimal" in section.lines else None,
        default=_default(section),
        types=_types(section),
        line=line.line,
    )


def _default(section: Section) -> str | None:
    """Any plain value, by its text: 0 and "0" are the same."""
    line = section.lines.get("default")
    if line is None:
        return None
    if line.text is None or line.value is None:
        section.complain("default", 'must be a value such as 0 or "unknown"; without one, remove the key')
    return line.text


def _types(section: Section) -> TypesPolicy | None:
    if "types" not in section.lines:
        return None
    return cast(TypesPolicy, section.choice("types", get_args(TypesPolicy)))


def _name_problem(name: str) -> str | None:
    if not name.strip():
        return "a column needs a name"
    return f"{SOURCE} is reserved for lading; choose another name" if name == SOURCE else None


def _header_problem(text: str) -> str | None:
    return None if text.strip() else "is empty; write the header as it stands in the files"


def _type_problem(text: str) -> str | None:
    try:
        canonical_type(text)
    except ValueError as error:
        return str(error)
    return None


def _refuse_senseless(table: Section, columns: Section, rules: Iterable[ColumnRule], fmt: Format) -> None:
    """What says nothing in files of this format, or of a column that no file holds."""
    from_names = _from_names(table.lines.get("columns_from_name"))
    nameless = _nameless(table, fmt)
    for rule in rules:
        section = (
            columns.section(rule.name, None) if isinstance(columns.lines[rule.name].value, dict) else None
        )
        given = set(section.lines) if section is not None else {"type"}
        for key in COLUMN_KEYS:
            why = None
            if key not in given:
                continue
            if rule.name in from_names and key != "type":
                why = "the column comes from the files' names, of which only `type` can be said"
            elif fmt == "fixed_width" and key == "type":
                why = "the types of fixed-width files are in the spec; remove this key"
            elif key == "from" and nameless:
                why = nameless
            elif fmt == "fixed_width" and rule.types == "widen" and key == "types":
                why = "the types of fixed-width files are in the spec; write strict or quarantine"
            if why and section is not None:
                section.complain(key, why)
            elif why:
                columns.complain(rule.name, why)
        if rule.default is not None and rule.type is not None and "<" in rule.type and section is not None:
            section.complain("default", f"a column of type {rule.type} can't have one; remove the key")


def _nameless(table: Section, fmt: Format) -> str | None:
    if fmt == "fixed_width":
        return "fixed-width files take their columns from the spec; remove this key"
    options = table.lines.get("read_options")
    header = options.value.get("header") if options is not None and isinstance(options.value, dict) else None
    if isinstance(header, Line) and header.value is False:
        return "files without a header have no names to compare; remove this key"
    return None


def _from_names(line: Line | None) -> tuple[str, ...]:
    try:
        return names_of(line.text) if line is not None and line.text is not None else ()
    except ValueError:
        return ()  # the key itself says so


def _refuse_shared(columns: Section, naming: Naming, rules: Iterable[ColumnRule]) -> None:
    """Headers that would mean two columns, and columns that nobody can tell apart."""
    pair = alike(rule.name for rule in rules)
    if pair is not None:
        columns.complain(pair[1], f"differs from {pair[0]!r} only in case; rename one of the two columns")
    owners: dict[str, tuple[str, str]] = {}
    for rule in rules:
        for header in (rule.name, *rule.headers):
            other, spelled = owners.setdefault(naming.key(header), (rule.name, header))
            if other != rule.name and {other, rule.name} != set(pair or ()):
                same = "" if spelled == header else f", as `names: {naming.how}` reads {spelled!r}"
                columns.complain(
                    rule.name, f"the header {header!r} already means {other!r}{same}; remove one"
                )
