"""lading add: tables from files that nobody has described yet."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from lading.cli.terminal.command import Argument, Context, Option
from lading.cli.terminal.invocation import Json, invocation_of

if TYPE_CHECKING:
    from lading.ingest.add.add import Added, AddedTable

Files = Annotated[list[Path], Argument(metavar="FILE", help="Files below the project.")]
Name = Annotated[
    str | None, Option("--table", metavar="NAME", help="The table's name; from the files' by default.")
]
DryRun = Annotated[bool, Option("--dry-run", help="Show what would be written; write nothing.")]


def add(ctx: Context, files: Files, table: Name = None, dry_run: DryRun = False, json: Json = False) -> None:
    """Write a table for files into lading.yaml.

    Looks at the bytes of the files for encoding, delimiter, quotes, header, lines before it, comments,
    words for null, decimal commas and date patterns, and writes what it finds with the evidence as comments.
    Files of different shapes become different tables. Shows the first rows as a run will read them.
    Everything else in lading.yaml stays as it is; if there is none, it is created.

    \b
    Example:
      lading add data/ships.csv
      lading add data/ports/*.csv --table ports --dry-run
    """
    from lading.cli.terminal.screen import print_json
    from lading.ingest.add.add import add as add_files

    added = add_files(invocation_of(ctx).project, files, table=table, write=not dry_run)
    if json:
        print_json(_object(added))
        return
    for one in added.tables:
        _show(one)
    _say_what_happened(added)


def _say_what_happened(added: Added) -> None:
    from lading.cli.terminal.screen import note, say

    for key in added.empty:
        note(f"{key} is empty; nothing was learnt from it")
    names = " ".join(one.name for one in added.tables)
    if added.written:
        say(f"wrote {names} to {added.file}; next: lading run {names}")
    else:
        say(f"nothing was written; without --dry-run this goes to {added.file}")
    if added.problem is not None:
        note(f"{added.problem.message}: paste the text yourself")


def _show(one: AddedTable) -> None:
    from lading.cli.terminal.rows import as_is
    from lading.cli.terminal.screen import note, say, show_table
    from lading.read.text import flat
    from lading.sources.names import name_columns
    from lading.words import count_words

    look = one.look
    rows = "" if look.inferred.rows is None else f", {count_words(look.inferred.rows, 'row')}"
    more = f" (the pattern matches {one.others:,} more)" if one.others else ""
    say(f"{one.name}: {count_words(len(look.files), 'file')}{more}{rows}")
    for line in one.text.splitlines():
        say(f"  {line}")
    say("")
    because = look.inferred.because
    show_table(
        ("  column", "type", "why"),
        [
            *(
                (f"  {column.name}", column.type, because.get(column.name))
                for column in look.inferred.columns
            ),
            *(
                (f"  {name}", "string", "from the files' names")
                for name in name_columns(one.columns_from_name)
            ),
        ],
    )
    say("")
    if look.rows.num_rows:
        records = [flat(batch).to_pylist() for batch in look.rows.to_batches()]
        names = look.rows.schema.names
        show_table(names, ([as_is(row[name]) for name in names] for batch in records for row in batch))
        say("")
    for remark in look.remarks:
        note(f"{one.name}: {remark}")


def _object(added: Added) -> dict[str, Any]:
    return {
        "file": str(added.file),
        "written": added.written,
        "tables": [_table_object(one) for one in added.tables],
        "empty": list(added.empty),
        "problem": added.problem.message if added.problem is not None else None,
    }


def _table_object(one: AddedTable) -> dict[str, Any]:
    from lading.read.text import row_json, with_text_times

    look = one.look
    because = look.inferred.because
    records = [row for batch in look.rows.to_batches() for row in with_text_times(batch).to_pylist()]
    return {
        "table": one.name,
        "path": one.path,
        "format": look.format,
        "read_options": look.options,
        "columns_from_name": one.columns_from_name,
        "because": look.because,
        "files": [file.key for file in look.files],
        "others": one.others,
        "columns": [
            {"name": column.name, "type": column.type, "because": because.get(column.name)}
            for column in look.inferred.columns
        ],
        "rows": [_decoded(row_json(record)) for record in records],
        "bad_rows": look.bad_count,
        "remarks": list(look.remarks),
        "text": one.text,
    }


def _decoded(text: bytes) -> Any:
    import msgspec

    return msgspec.json.decode(text)
