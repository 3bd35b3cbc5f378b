"""What `lading explain` and `lading sources` say of one slot of a table made of tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lading.config.project import Config
from lading.words import count_words

if TYPE_CHECKING:
    from lading.ingest.derived.lineage import FileMoves

_SHOWN = 40  # files listed for a person; a script asks for JSON and gets all


def show_slot(config: Config, table: str, text: str, *, json: bool) -> None:
    """Why a slot is evaluated, or why not, and which rows of which files moved it."""
    from lading.cli.terminal.screen import print_json, say
    from lading.cli.terminal.watching import terminal_watch
    from lading.explain import explain_slot

    with terminal_watch() as watch:
        answer = explain_slot(config, table, text, watch)
    if json:
        print_json(answer.as_json())
        return
    if answer.verdict is None:
        say(f"{table}: {answer.slot} is not there: {answer.reason}")
        return
    say(f"{table}: {answer.slot} is {answer.verdict}: {answer.reason}. {answer.consequence}")
    _show_moves(answer.pending)
    last = answer.last
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

    from lading.cli.terminal.screen import print_json, say, show_table
    from lading.ingest.derived.inputs import pins_in
    from lading.ingest.derived.lineage import files_in, slot_named
    from lading.layout.table import slot_of

    cfg = config.table(table)
    key = slot_named(cfg, text)
    found = files_in(config, cfg, pins_in(custom), frozenset([slot_of(key) or 0]))
    if json:
        print_json({"table": table, "slot": key, "files": [asdict(one) for one in found]})
        return
    if not found:
        say(f"{table}: no rows of its inputs are in {key}")
        return
    show_table(
        ("table", "file", "rows", ""),
        ((one.table, one.key, one.rows, "given whole" if one.whole else "") for one in found),
        right=("rows",),
    )
