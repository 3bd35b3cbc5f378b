"""Why a file is read or not, and what moved a slot: the door of `lading explain`."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lading.config.project import Config, TableConfig
from lading.errors import NotFound
from lading.ingest.look import look
from lading.ingest.plan import TablePlan
from lading.layout.project import made_folder
from lading.layout.table import slot_key, slot_of
from lading.plan import plan_tables
from lading.sources.archives.extractions import relative_path
from lading.sources.glob import compile_glob
from lading.sources.manifest import load as load_manifest
from lading.watch import SILENT, Watch
from lading.words import count_words, verdict_words

if TYPE_CHECKING:
    from lading.ingest.derived.lineage import FileMoves, LastChange

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
class Answer:
    """Of one file, as one table sees it."""

    table: str | None
    key: str
    verdict: str | None  # None: not one of this table's files
    reason: str
    recorded: dict[str, Any] | None = None  # from its entry in manifest/<table>.json

    @property
    def consequence(self) -> str:
        """What the next run does with it."""
        return _CONSEQUENCE[self.verdict] if self.verdict is not None else ""

    def as_json(self) -> dict[str, Any]:
        """Plain values, for `--json`."""
        return asdict(self)


def explain_file(config: Config, file: str, watch: Watch = SILENT) -> list[Answer]:
    """What each table that it can be of says of a file; NotFound if there is none by that name."""
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
    answers = [
        _answer(config, config.table(name), found, plan_tables(config, [name], watch=watch)[0])
        for name, found in meant.items()
    ]
    known = [answer for answer in answers if answer.verdict is not None]
    if known or any(there.values()):
        return known or answers
    if file in config.tables:
        raise NotFound(f"{file} is a table", hint=_how_to_ask(config.table(file)), table=file)
    if any(os.path.lexists(base / file) for base in (Path(), config.project)):
        return [Answer(None, file, None, "it is not in any table's root")]
    raise NotFound(
        f"there is no file {file}, and no table has read one by that name",
        hint="give a path, or a key from `lading plan --json`",
        file=file,
    )


def _how_to_ask(table: TableConfig) -> str:
    """Whoever names a table and nothing of it."""
    if table.derived is None:
        return f"lading plan {table.name}: it lists the table's files and what becomes of them"
    slot = (
        slot_key(0, of_bucket=True) if table.derived.by_bucket else slot_key(min(17, table.derived.slots - 1))
    )
    return f"name a slot of it: lading explain {table.name} {slot}; `lading sources {table.name}` lists them"


def explain_key(config: Config, plan: TablePlan, key: str) -> Answer:
    """The same of a key of one table, by a plan that was made already."""
    return _answer(config, config.table(plan.table), [key], plan)


def _keys(config: Config, table: TableConfig, file: str) -> list[str]:
    """What `file` could mean under this table's root: a path from here or the project, or a key."""
    paths = [Path(os.path.abspath(base / file)) for base in (Path(), config.project, table.root)]
    inside = [path.relative_to(table.root) for path in paths if path.is_relative_to(table.root)]
    return list(dict.fromkeys(path.as_posix() for path in inside if path.parts))


def _answer(config: Config, table: TableConfig, keys: Sequence[str], plan: TablePlan) -> Answer:
    verdict = next((one for one in plan.files if one.key in keys), None)
    if verdict is None:
        whole = (_archive(config, table, key, plan) for key in keys)
        packed = next((answer for answer in whole if answer is not None), None)
        return packed or Answer(table.name, keys[0], None, _why_not(table, keys[0]))
    manifest = load_manifest(config.source_manifest(table.name))
    entry = manifest.entry(verdict.key) if manifest else None
    recorded = None
    if entry is not None:
        when = {"status": entry.status, "last_processed": entry.last_processed}
        counts = {"rows": entry.row_count, "rows_rejected": entry.rows_rejected}
        recorded = {**when, "hash": entry.hash, **counts, "error": entry.error}
    return Answer(table.name, verdict.key, verdict.verdict, verdict.reason, recorded)


def _archive(config: Config, table: TableConfig, key: str, plan: TablePlan) -> Answer | None:
    """An archive, or what a script works on: what becomes of the files that come out of it."""
    start = made_folder(key, relative_path(config.project, table.root, key, table.url)) + "/"
    verdicts: Counter[str] = Counter(one.verdict for one in plan.files if one.key.startswith(start))
    if not verdicts:
        return None
    verdict = "unchanged" if set(verdicts) == {"unchanged"} else "changed"
    reason = f"{count_words(verdicts.total(), 'file')} from it: {verdict_words(verdicts)}"
    return Answer(table.name, key, verdict, reason)


def _why_not(table: TableConfig, key: str) -> str:
    path = table.root / key
    if not path.exists():
        return f"there is no such file in {table.root}"
    if path.is_dir():
        return "it is a folder, not a file"
    if not compile_glob(table.path).fullmatch(key):
        return f"it does not match path: {table.path}"
    return "discovery did not list it"


@dataclass(frozen=True, slots=True)
class SlotAnswer:
    """Of one slot of a table made of tables."""

    table: str
    slot: str
    verdict: str | None  # None: no input has rows in it
    reason: str
    pending: tuple[FileMoves, ...]  # rows of files that the next run evaluates it for
    last: LastChange | None = None  # what moved it last, if nothing is pending

    @property
    def consequence(self) -> str:
        """What the next run does with it."""
        if self.verdict == "vanished":
            return "The next run retracts its rows."
        again = self.verdict not in ("unchanged", "quarantined")
        return "The next run evaluates it." if again else "The next run leaves it alone."

    def as_json(self) -> dict[str, Any]:
        """Plain values, for `--json`."""
        pending = [asdict(one) for one in self.pending]
        last = asdict(self.last) if self.last is not None else None
        told = {"verdict": self.verdict, "reason": self.reason, "pending": pending, "last": last}
        return {"table": self.table, "slot": self.slot, **told}


def explain_slot(config: Config, table: str, text: str, watch: Watch = SILENT) -> SlotAnswer:
    """Why a slot is evaluated, or why not, and which rows of which files moved it."""
    from lading.ingest.derived.inputs import pins_of
    from lading.ingest.derived.lineage import last_change, moved_files, pending_files, slot_named

    cfg = config.table(table)
    key = slot_named(cfg, text)
    seen = look(config, table, watch=watch)
    assert seen.derived is not None
    verdict = next((one for one in seen.plan.files if one.key == key), None)
    pinned = pins_of(seen.opened.state.meta.inputs) if seen.opened is not None else {}
    keys = pending_files(seen.derived.shown, pinned) if any(seen.derived.moves.values()) else {}
    whole = [one.input.name for one in seen.derived.shown if not one.input.is_cut]
    pending = moved_files(seen.derived.moves, slot_of(key) or 0, keys, whole)
    last = last_change(config, cfg, key) if not pending else None
    if verdict is None:
        return SlotAnswer(table, key, None, "no input has rows in it", pending, last)
    return SlotAnswer(table, key, verdict.verdict, verdict.reason, pending, last)
