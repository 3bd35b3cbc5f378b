"""lading explain: why was this file read, or why not?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from lading.cli.terminal.command import Argument, Context
from lading.cli.terminal.invocation import Json, config_of
from lading.words import count_words

if TYPE_CHECKING:
    from lading.explain import Answer

File = Annotated[
    str, Argument(metavar="FILE", help="A path, or a key from `lading plan`; a table, if a SLOT follows.")
]
Slot = Annotated[
    str | None, Argument(metavar="SLOT", help="A slot of a table made of tables: slot=00017, or 17.")
]


def explain(ctx: Context, file: File, slot: Slot = None, json: Json = False) -> None:
    """Explain why a file is read, or why not; or which rows moved a slot.

    Of a slot of a table made of tables, it says which rows of which files of its inputs came and went.

    \b
    Example:
      lading explain data/voyages/rotterdam_20240301.csv
      lading explain tonnage slot=00017
    """
    from lading.cli.terminal.screen import print_json
    from lading.cli.terminal.watching import terminal_watch
    from lading.explain import explain_file

    if slot is not None:
        from lading.cli.slots import show_slot

        show_slot(config_of(ctx, [file]), file, slot, json=json)
        return
    config = config_of(ctx)
    with terminal_watch() as watch:
        answers = explain_file(config, file, watch)
    if json:
        print_json({"file": file, "tables": [answer.as_json() for answer in answers]})
    else:
        for answer in answers:
            _show(answer)


def _show(answer: Answer) -> None:
    from lading.cli.terminal.screen import say

    where = f"{answer.table}: " if answer.table else ""
    if answer.verdict is None:
        say(f"{where}{answer.key} is not read: {answer.reason}")
        return
    say(f"{where}{answer.key} is {answer.verdict}: {answer.reason}. {answer.consequence}")
    if answer.recorded:
        last = answer.recorded
        rows = f"{count_words(last['rows'], 'row')}, " if last["rows"] is not None else ""
        aside = f"{last['rows_rejected']:,} set aside, " if last["rows_rejected"] else ""
        say(f"  last read {last['last_processed']}: {rows}{aside}{last['error'] or last['status']}")
