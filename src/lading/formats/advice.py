"""What to do about a bad row, in words."""

from __future__ import annotations

from lading.formats.reader import ReadSpec
from lading.formats.reasons import FINER, NEVER_CLOSED
from lading.layout.project import CONFIG, schema_file
from lading.model import DELIMITERS, BadRow


def advice(spec: ReadSpec, bad: BadRow, table: str) -> str:
    """For the owner of the file, or of the table."""
    fmt, options = spec.format, spec.options
    column = next((one for one in spec.columns if one.name == bad.column), None)
    if bad.reason.startswith("bytes that are not "):
        if fmt == "json":
            return "convert the file to UTF-8"
        return "set read_options.encoding (latin1, windows-1252, …) or fix the file"
    if bad.reason == NEVER_CLOSED:
        spanning = (
            "" if options.get("multiline") else "; if values span lines, set read_options: {multiline: true}"
        )
        return f"fix the line, or set another read_options.quote{spanning}"
    home = _home_of_type(spec, bad.column, table)
    if bad.reason.endswith(FINER):
        return (
            f"write the file with microseconds, or set the column's type in {home}: `string` "
            "keeps all digits as text, `bigint` makes a timestamp a number of nanoseconds since 1970"
        )
    if column is not None and column.inferred:
        return (
            f"fix the row, run `lading discover-schema {table} --full-scan` to infer types from all rows, "
            f"or claim {column.type} as yours by deleting the column's `because` in {schema_file(table)}"
        )
    by_line = not options.get("multiline") and "records" not in options
    if fmt == "json" and by_line and _is_of_an_array(bad.text):
        return (
            "if the file is one array, or has objects that span lines, set read_options: {multiline: true}; "
            "if its rows lie deeper, set read_options.records to the path of their array"
        )
    if column is not None:
        return f"fix the row, or the type in {home}"
    if fmt == "json":
        return f"fix the record; if its keys are new, run `lading discover-schema {table}` or change `drift`"
    if fmt == "fixed_width":
        return "fix the line, or `start` and `length` of the columns in the spec"
    if fmt in DELIMITERS:
        return (
            "fix the row, or read_options: `delimiter`, `quote`, `escape`; `comment` for lines that aren't "
            "records, `multiline` for values that span lines"
        )
    return f"fix the row, or the type in {home}"


def _home_of_type(spec: ReadSpec, column: str | None, table: str) -> str:
    """Where a person has written, or would write, the type of a column."""
    rule = next((rule for rule in spec.rules if rule.name == column), None)
    if rule is not None and rule.type is not None:
        return f"{CONFIG}:{rule.line}"
    return "the spec" if spec.format == "fixed_width" else schema_file(table)


def _is_of_an_array(text: str) -> bool:
    """Whether a line looks like a piece of a document over many lines: `[`, `{`, or `{…},`."""
    bare = text.strip()
    return bare[:1] in ("[", "]") or bare in ("{", "}", "},") or bare.endswith("},")
