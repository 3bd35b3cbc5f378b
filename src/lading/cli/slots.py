"""What `lading explain` and `lading sources` say of one slot of a table made of tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lading.config.project import Config
from lading.words import count_words

if TYPE_CHECKING:
    from lading.ingest.derived.lineage import FileMoves

_SHOWN = 40  # files listed for a person; a script asks for JSON and gets all


def explain_slot(config: Config, table: str, text: str, *, json: bool) -> None:
    """Why a slot is evaluated, or why not, and which rows of which files moved it."""
    from dataclasses import asdict

    from lading.cli.terminal.screen import print_json, say
    from lading.cli.terminal.watching import terminal_watch
    from lading.ingest.derived.inputs import pins_of
    from lading.ingest.derived.lineage import last_change, moved_files, pending_files, slot_named
    from lading.ingest.look import look
    from lading.layout.table import slot_of

    cfg = config.table(table)
    key = slot_named(cfg, text)
    with terminal_watch() as watch:
        seen = look(config, table, watch=watch)
    assert seen.derived is not None
    verdict = next((one for one in seen.plan.files if one.key == key), None)
    pinned = pins_of(seen.opened.state.meta.inputs) if seen.opened is not None else {}
    keys = pending_files(seen.derived.shown, pinned) if any(seen.derived.moves.values()) else {}
    whole = [one.input.name for one in seen.derived.shown if not one.input.is_cut]
    pending = moved_files(seen.derived.moves, slot_of(key) or 0, keys, whole)
    last = last_change(config, cfg, key) if not pending else None
    if json:
        told: dict[str, Any] = {
            "table": table,
            "slot": key,
            "verdict": verdict.verdict if verdict else None,
            "reason": verdict.reason if verdict else "no input has rows in it",
            "pending": [asdict(one) for one in pending],
            "last": asdict(last) if last is not None else None,
        }
        print_json(told)
        return
    if verdict is None:
        say(f"{table}: {key} is not there: no input has rows in it")
        return
    again = verdict.verdict not in ("unchanged", "quarantined", "vanished")
    then = "The next run evaluates it." if again else "The next run leaves it alone."
    then = "The next run retracts its rows." if verdict.verdict == "vanished" else then
    say(f"{table}: {key} is {verdict.verdict}: {verdict.reason}. {then}")
    _show_moves(pending)
    if last is not None:
        note = f": {last.note}" if last.note else ""
        say(f"  last changed by run {last.run_id} (sequence {last.sequence}){note}")
        _show_moves(last.moved)


def _show_moves(moved: tuple[FileMoves, ...]) -> None:
    from lading.cli.terminal.screen import say, show_table

    if moved:
        show_table(
            ("  input", "source", "rows came", "rows went"),
            ((f"  {one.table}", one.key, one.came, one.went) for one in moved[:_SHOWN]),
            right=("rows came", "rows went"),
        )
    if len(moved) > _SHOWN:
        say(f"  … and {count_words(len(moved) - _SHOWN, 'more source')}; --json lists them all")


def slot_files(config: Config, table: str, text: str, custom: dict[str, Any], *, json: bool) -> None:
    """The source files whose rows are in a slot; `custom` is what the snapshot says of itself."""
    from dataclasses import asdict

    from lading.cli.terminal.screen import print_json, show_table
    from lading.ingest.derived.inputs import pins_in
    from lading.ingest.derived.lineage import files_in, slot_named
    from lading.layout.table import slot_of

    cfg = config.table(table)
    key = slot_named(cfg, text)
    found = files_in(config, cfg, pins_in(custom), frozenset([slot_of(key) or 0]))
    if json:
        print_json({"table": table, "slot": key, "files": [asdict(one) for one in found]})
        return
    show_table(
        ("table", "file", "rows", ""),
        ((one.table, one.key, one.rows, "given whole" if one.whole else "") for one in found),
        right=("rows",),
    )
