"""lading clean: what nothing refers to any more."""

from __future__ import annotations

import re
from collections import Counter
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lading.cli.session import Json, Tables, config_of
from lading.errors import ConfigError

if TYPE_CHECKING:
    from lading.steps.clean import CleanReport

_SHOWN = 20  # files a table; --json lists all
_KEEP = 10
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}

KeepRuns = Annotated[
    int,
    typer.Option(
        "--keep-runs", metavar="N", min=1, help=f"Keep the snapshots of N runs; {_KEEP} by default."
    ),
]
OlderThan = Annotated[
    str,
    typer.Option(
        "--older-than", metavar="SPAN", help="Only what nothing has referred to for that long: 24h."
    ),
]
Apply = Annotated[bool, typer.Option("--apply", help="Delete; without it nothing is touched.")]


def clean(
    ctx: typer.Context,
    tables: Tables = None,
    keep_runs: KeepRuns = _KEEP,
    older_than: OlderThan = "24h",
    apply: Apply = False,
    json: Json = False,
) -> None:
    """Show, or delete, what nothing refers to any more.

    Snapshots past --keep-runs, replaced parts, attempts that lost, what dead runs left, half-written
    files. Nothing that a kept snapshot, the log or a run at work refers to, only files that lading
    wrote, and only with --apply.

    \b
    Example:
      lading clean
      lading clean voyages --keep-runs 30 --older-than 7d --apply
    """
    from lading.cli.screen import print_json
    from lading.steps.clean import Rules, tables_to_clean
    from lading.steps.clean import clean as clean_table

    config = config_of(ctx)
    rules = Rules(keep_runs, span(older_than, "--older-than"))
    reports = [
        clean_table(config, name, rules, apply=apply) for name in tables_to_clean(config, tables or [])
    ]
    if json:
        print_json({"applied": apply, "tables": [_report_object(one) for one in reports]})
        return
    for report in reports:
        _show(report, apply)


def span(text: str, option: str) -> timedelta:
    """`7d`, `24h`, `30m`, `0s`."""
    match = re.fullmatch(r"([0-9]+)\s*([smhdw])", text.strip())
    if match is None:
        raise ConfigError(f"{option} {text!r} is not a span of time", hint="write it as 30m, 24h or 7d")
    try:
        return timedelta(seconds=int(match[1]) * _UNITS[match[2]])
    except OverflowError:
        raise ConfigError(f"{option} {text!r} is too long", hint="write it as 30m, 24h or 7d") from None


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
    }


def _show(report: CleanReport, applied: bool) -> None:
    from lading.cli.screen import byte_words, count_words, say, show_table

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
        say(f"Given up for dead: {', '.join(report.gave_up)}")
    if applied:
        freed = byte_words(sum(one.bytes for one in report.deleted))
        say(f"Deleted {count_words(len(report.deleted), 'file')}, {freed}.")
    else:
        say("Nothing was deleted: --apply does it.")
