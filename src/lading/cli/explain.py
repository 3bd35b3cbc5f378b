"""lading explain: why was this file read, or why not?"""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from lading.cli.terminal.command import Argument, Context
from lading.cli.terminal.invocation import Json, config_of
from lading.config.project import Config, TableConfig
from lading.errors import NotFound
from lading.words import count_words, verdict_words

if TYPE_CHECKING:
    from lading.ingest.plan import TablePlan

File = Annotated[
    str, Argument(metavar="FILE", help="A path, or a key from `lading plan`; a table, if a SLOT follows.")
]
Slot = Annotated[
    str | None, Argument(metavar="[SLOT]", help="A slot of a table made of tables: slot=00017, or 17.")
]

_CONSEQUENCE = {
    "new": "The next run reads it.",
    "changed": "The next run reads it again and replaces its rows.",
    "reread": "It has not changed; the next run reads it again and replaces its rows.",
    "touched": "The next run records its new time without reading it.",
    "unchanged": "The next run leaves it alone.",
    "vanished": "The next run retracts its rows.",
    "failed": "The next run tries it again.",
    "quarantined": "Its bad rows stay set aside.",
}


@dataclass(frozen=True, slots=True)
class _Answer:
    table: str | None
    key: str
    verdict: str | None  # None: not one of this table's files
    reason: str
    recorded: dict[str, Any] | None = None  # from its entry in manifest/<table>.json


def explain(ctx: Context, file: File, slot: Slot = None, json: Json = False) -> None:
    """Explain why a file is read, or why not; or which rows moved a slot.

    Of a slot of a table made of tables, it says which rows of which files of its inputs came and went.

    \b
    Example:
      lading explain data/voyages/rotterdam_20240301.csv
      lading explain tonnage slot=00017
    """
    from lading.cli.terminal.screen import print_json

    if slot is not None:
        from lading.cli.slots import explain_slot

        explain_slot(config_of(ctx, [file]), file, slot, json=json)
        return
    answers = _answers(config_of(ctx), file)
    if json:
        print_json({"file": file, "tables": [_answer_object(answer) for answer in answers]})
    else:
        for answer in answers:
            _show(answer)


def _answers(config: Config, file: str) -> list[_Answer]:
    if not os.fsencode(file).isascii() and os.fsencode(file).decode(errors="replace") != file:
        raise NotFound(
            f"the name {os.fsencode(file)!r} is not valid UTF-8, so no table can read this file",
            hint="rename the file",
        )
    of_files = [table for table in config.tables.values() if table.derived is None]
    keys = {table.name: _keys(config, table, file) for table in of_files}
    there = {name: [key for key in keys[name] if (config.table(name).root / key).exists()] for name in keys}
    # A file that is there concerns the tables whose root it lies in; one that is gone may be any table's.
    meant = {name: found for name, found in (there if any(there.values()) else keys).items() if found}
    answers = [_answer(config, config.table(name), found) for name, found in meant.items()]
    known = [answer for answer in answers if answer.verdict is not None]
    if known or any(there.values()):
        return known or answers
    if any(os.path.lexists(base / file) for base in (Path(), config.project)):
        return [_Answer(None, file, None, "it is not in any table's root")]
    raise NotFound(
        f"there is no file {file}, and no table has read one by that name",
        hint="give a path, or a key from `lading plan --json`",
        file=file,
    )


def _keys(config: Config, table: TableConfig, file: str) -> list[str]:
    """What `file` could mean under this table's root: a path from here or the project, or a key."""
    paths = [Path(os.path.abspath(base / file)) for base in (Path(), config.project, table.root)]
    inside = [path.relative_to(table.root) for path in paths if path.is_relative_to(table.root)]
    return list(dict.fromkeys(path.as_posix() for path in inside if path.parts))


def _answer(config: Config, table: TableConfig, keys: list[str]) -> _Answer:
    from lading.cli.terminal.watching import terminal_watch
    from lading.plan import plan_tables
    from lading.sources.manifest import load as load_manifest

    with terminal_watch() as watch:
        (plan,) = plan_tables(config, [table.name], watch=watch)
    verdict = next((one for one in plan.files if one.key in keys), None)
    if verdict is None:
        whole = (_archive(config, table, key, plan) for key in keys)
        packed = next((answer for answer in whole if answer is not None), None)
        return packed or _Answer(table.name, keys[0], None, _why_not(table, keys[0]))
    manifest = load_manifest(config.source_manifest(table.name))
    entry = manifest.entry(verdict.key) if manifest else None
    recorded = None
    if entry is not None:
        when = {"status": entry.status, "last_processed": entry.last_processed}
        counts = {"rows": entry.row_count, "rows_rejected": entry.rows_rejected}
        recorded = {**when, "hash": entry.hash, **counts, "error": entry.error}
    return _Answer(table.name, verdict.key, verdict.verdict, verdict.reason, recorded)


def _archive(config: Config, table: TableConfig, key: str, plan: TablePlan) -> _Answer | None:
    """An archive, or what a script works on: what becomes of the files that come out of it."""
    from lading.layout.project import made_folder
    from lading.sources.archives.extractions import relative_path

    start = made_folder(key, relative_path(config.project, table.root, key, table.url)) + "/"
    verdicts: Counter[str] = Counter(one.verdict for one in plan.files if one.key.startswith(start))
    if not verdicts:
        return None
    verdict = "unchanged" if set(verdicts) == {"unchanged"} else "changed"
    reason = f"{count_words(verdicts.total(), 'file')} from it: {verdict_words(verdicts)}"
    return _Answer(table.name, key, verdict, reason)


def _why_not(table: TableConfig, key: str) -> str:
    from lading.sources.glob import compile_glob

    path = table.root / key
    if not path.exists():
        return f"there is no such file in {table.root}"
    if path.is_dir():
        return "it is a folder, not a file"
    if not compile_glob(table.path).fullmatch(key):
        return f"it does not match path: {table.path}"
    return "discovery did not list it"


def _answer_object(answer: _Answer) -> dict[str, Any]:
    return {
        "table": answer.table,
        "key": answer.key,
        "verdict": answer.verdict,
        "reason": answer.reason,
        "recorded": answer.recorded,
    }


def _show(answer: _Answer) -> None:
    from lading.cli.terminal.screen import say

    where = f"{answer.table}: " if answer.table else ""
    if answer.verdict is None:
        say(f"{where}{answer.key} is not read: {answer.reason}")
        return
    say(f"{where}{answer.key} is {answer.verdict}: {answer.reason}. {_CONSEQUENCE[answer.verdict]}")
    if answer.recorded:
        last = answer.recorded
        rows = f"{count_words(last['rows'], 'row')}, " if last["rows"] is not None else ""
        aside = f"{last['rows_rejected']:,} set aside, " if last["rows_rejected"] else ""
        say(f"  last read {last['last_processed']}: {rows}{aside}{last['error'] or last['status']}")
