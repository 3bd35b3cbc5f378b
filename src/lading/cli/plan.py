"""lading plan: what a run would do, and why. Changes nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lading.cli.terminal.command import Context, Exit
from lading.cli.terminal.invocation import Json, Tables, config_of, source_word
from lading.words import byte_words, count_words, verdict_words

if TYPE_CHECKING:
    from lading.ingest.plan import TablePlan

_SHOWN = 40  # files listed for a person; a script asks for JSON and gets all
WORK_EXIT = 2


def plan(ctx: Context, tables: Tables = None, json: Json = False) -> None:
    """Show what a run would do, and why.

    Gives a verdict and a reason for each file, and for each slot of tables made of tables, after the tables
    that they are made of. Changes nothing.
    Exits with 0 if there is nothing to do, 2 if there is.

    \b
    Example:
      lading plan
      lading plan voyages --json
    """
    config = config_of(ctx, tables)
    from lading.cli.terminal.screen import print_json
    from lading.cli.terminal.watching import terminal_watch
    from lading.plan import plan_tables

    with terminal_watch() as watch:
        plans = plan_tables(config, tables or (), watch=watch)
    if json:
        print_json({"tables": [one.as_json() for one in plans]})
    else:
        for one in plans:
            _show(one, source_word(config, one.table))
    if not all(one.idle for one in plans):
        raise Exit(WORK_EXIT)


def _show(plan: TablePlan, what: str) -> None:
    from lading.cli.terminal.screen import note, say, show_table

    for text in plan.notes:
        note(f"{plan.table}: {text}")
    if plan.idle:
        say(f"{plan.table}: nothing to do ({verdict_words(plan.verdicts)})")
        return
    of_slots = what == "slot"
    never = of_slots and not plan.files
    say(f"{plan.table}: {'every slot is new' if never else verdict_words(plan.verdicts)}")
    for text in plan.columns:
        say(f"  {text}")
    if plan.again is not None:
        which = "everything" if plan.replaces_all else count_words(plan.verdicts["reread"], what)
        say(f"  {'evaluates' if of_slots else 'reads'} {which} again: {plan.again.why}")
    if plan.publish:
        say(f"  {plan.publish}")
    if plan.parts_to_rewrite:
        parts = count_words(plan.parts_to_rewrite, "part")
        rows = count_words(plan.rows_to_rewrite, "row")
        say(f"  rewrites {parts} ({rows}, {byte_words(plan.bytes_to_rewrite)})")
    if plan.subtract:
        say(f"  removes rows from {count_words(len(plan.subtract), 'part')} without rewriting")
    told = plan.again.why if plan.again is not None else None  # once, for all of them
    work = [
        file
        for file in plan.files
        if file.verdict != "unchanged" and not (file.verdict == "reread" and file.reason == told)
    ]
    if work:
        show_table(("  verdict", what, "why"), ((f"  {f.verdict}", f.key, f.reason) for f in work[:_SHOWN]))
    if len(work) > _SHOWN:
        say(f"  … and {len(work) - _SHOWN:,} more; --json lists them all")
