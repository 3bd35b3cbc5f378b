"""lading clean: delete files that nothing refers to any more."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Any

from lading.cli.terminal.command import Context, Exit, Option
from lading.cli.terminal.invocation import Json, Tables, config_of
from lading.errors import ConfigError
from lading.words import byte_words, count_words

if TYPE_CHECKING:
    from lading.upkeep.clean.apply import CleanReport

_SHOWN = 20  # files a table; --json lists all

KeepRuns = Annotated[
    int | None,
    Option(
        "--keep-runs",
        metavar="N",
        min=1,
        help="Keep the snapshots of the last N runs; by default `clean.keep_runs` in lading.yaml, or 10.",
    ),
]
OlderThan = Annotated[
    str | None,
    Option(
        "--older-than",
        metavar="SPAN",
        help="Delete only what has been unreferenced this long (30m, 24h, 7d); by default `clean.grace` in "
        "lading.yaml, or 24h.",
    ),
]
Apply = Annotated[bool, Option("--apply", help="Delete the files instead of listing them.")]


def clean(
    ctx: Context,
    tables: Tables = None,
    keep_runs: KeepRuns = None,
    older_than: OlderThan = None,
    apply: Apply = False,
    json: Json = False,
) -> None:
    """List, or delete, files that nothing refers to any more.

    These are snapshots beyond --keep-runs, replaced parts, losing attempts, leftovers of dead runs and
    half-written files; in a bucket, also commits and checkpoints that a later checkpoint replaced.
    Files that lading didn't write, or that a kept snapshot, the log or an active run refers to, always
    stay. Nothing is deleted without --apply.

    \b
    Example:
      lading clean
      lading clean voyages --keep-runs 30 --older-than 7d --apply
    """
    from lading.cli.terminal.failures import print_error
    from lading.cli.terminal.screen import note, print_json
    from lading.upkeep.clean.apply import clean_tables, tables_to_clean
    from lading.upkeep.clean.survey import Rules

    config = config_of(ctx)
    kept = config.clean
    rules = Rules(
        kept.keep_runs if keep_runs is None else keep_runs,
        kept.grace if older_than is None else span(older_than, "--older-than"),
    )
    reports = clean_tables(config, tables_to_clean(config, tables or []), rules, apply=apply)
    errors = [report.error for report in reports if report.error is not None]
    if json:
        found: dict[str, Any] = {"applied": apply, "tables": [_report_object(one) for one in reports]}
        print_json({**found, "error": errors[0].as_json()} if errors else found)
    else:
        for report in reports:
            if report.error is not None:
                print_error(report.error)
                continue
            _show(report, apply)
            if report.note:
                note(report.note)
    if errors:
        raise Exit(max(error.exit_code for error in errors))


def span(text: str, option: str) -> timedelta:
    """`7d`, `24h`, `30m`, `0s`."""
    from lading.config.clean import parse_span

    found = parse_span(text)
    if found is None:
        raise ConfigError(f"{option} {text!r} is not a duration", hint="write it as 30m, 24h or 7d")
    return found


def _report_object(report: CleanReport) -> dict[str, Any]:
    deleted = {one.path for one in report.deleted}
    return {
        "table": report.table,
        "files": [
            {
                "path": one.path,
                "kind": one.kind,
                "bytes": one.bytes,
                "why": one.why,
                "deleted": one.path in deleted,
            }
            for one in report.garbage
        ],
        "bytes": report.bytes,
        "deleted": len(report.deleted),
        "bytes_deleted": sum(one.bytes for one in report.deleted),
        "gave_up": list(report.gave_up),
        "note": report.note,
        "error": report.error.as_json() if report.error is not None else None,
    }


def _show(report: CleanReport, applied: bool) -> None:
    from lading.cli.terminal.screen import say, show_table

    if not report.garbage:
        say(f"{report.table}: nothing to clean.")
        return
    kinds: Counter[str] = Counter()
    sizes: Counter[str] = Counter()
    for one in report.garbage:
        kinds[one.kind] += 1
        sizes[one.kind] += one.bytes
    say(f"{report.table}: {count_words(len(report.garbage), 'file')}, {byte_words(report.bytes)}")
    show_table(
        ("kind", "files", "size"),
        ((kind, kinds[kind], byte_words(sizes[kind])) for kind in kinds),
        right=("files", "size"),
    )
    for one in report.garbage[:_SHOWN]:
        say(f"  {one.path}: {one.why}")
    if len(report.garbage) > _SHOWN:
        say(f"  and {len(report.garbage) - _SHOWN:,} more; --json lists all")
    if report.gave_up:
        say(f"Runs given up as dead: {', '.join(report.gave_up)}")
    if applied:
        freed = byte_words(sum(one.bytes for one in report.deleted))
        say(f"Deleted {count_words(len(report.deleted), 'file')} ({freed}).")
    else:
        say("Nothing was deleted. To delete these files, add --apply.")
