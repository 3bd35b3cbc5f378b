"""How the checks of lading.yaml went: on the rows that were read, and on the whole table.

`check_table` is asked before anything is published. Counts come from the log; only `unique` reads
data, and only the columns in question.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from lading.checks.measure import repeats
from lading.errors import ConfigError
from lading.layout.table import SOURCE
from lading.model import Check, CheckResult, CheckTally, FoundFile, StartSpark
from lading.read.scan import table_schema
from lading.state.memberset import MemberSet
from lading.words import count_words

_SAMPLE = 3


def check_table(
    checks: Iterable[Check], members: MemberSet, session: StartSpark, *, table: str = ""
) -> list[CheckResult]:
    """The checks on the whole table, on its state as `members` gives it; `session` gives Spark, should
    one of them want it."""
    return [
        _unique(check, members, session, table) if check.kind == "unique" else _counted(check, members)
        for check in checks
        if not check.on_rows
    ]


def check_nothing(checks: Iterable[Check]) -> tuple[CheckResult, ...]:
    """The same for a table that never had a row, and so has no columns yet: it can only be too small."""
    return tuple(
        CheckResult(check.name, wrong is None, check.severity, int(wrong is not None), wrong or "")
        for check in checks
        if not check.on_rows
        for wrong in [_wrong_number(check, 0)]
    )


def row_results(
    checks: Iterable[Check], tally: CheckTally, by_id: Mapping[int, FoundFile]
) -> tuple[CheckResult, ...]:
    """The checks on rows, over what this run has read. One fails if it does in any file."""
    total = sum(tally.rows.values())
    results = []
    for check in checks:
        if not check.on_rows:
            continue
        failed = tally.failed.get(check.name, {})
        rows = sum(failed.values())
        broken = _broken(check, tally)
        results.append(
            CheckResult(
                name=check.name,
                passed=not broken,
                severity=check.severity,
                failed=rows,
                message=f"{rows:,} of {total:,} rows read fail" if rows else "",
                sample=tuple(
                    f"{by_id[source].key}: {text}" if source in by_id else text
                    for source, text in tally.sample.get(check.name, ())
                ),
                on_rows=True,
            )
        )
    return tuple(results)


def broken_by_source(checks: Sequence[Check], tally: CheckTally) -> tuple[dict[int, int], dict[int, int]]:
    """Which error checks, as bits, each source breaks: those that allow no row to fail, and those that
    allow some and were exceeded."""
    strict: dict[int, int] = {}
    exceeded: dict[int, int] = {}
    for number, check in enumerate(checks):
        if check.severity != "error":
            continue
        tolerant = check.threshold.count or check.threshold.share
        found = exceeded if tolerant else strict
        for source in _broken(check, tally):
            found[source] = found.get(source, 0) | (1 << number)
    return strict, exceeded


def as_object(result: CheckResult) -> dict[str, Any]:
    """For `--json`, the run record and snapshot manifests."""
    return {
        "name": result.name,
        "passed": result.passed,
        "severity": result.severity,
        "failed": result.failed,
        "message": result.message,
        "sample": list(result.sample),
        "on": "rows" if result.on_rows else "table",
    }


def told_results(custom: Mapping[str, Any]) -> tuple[CheckResult, ...]:
    """What a snapshot manifest says of the checks that were made before it was published."""
    gate = custom.get("gate")
    told = gate.get("checks") if isinstance(gate, dict) else None
    return tuple(
        CheckResult(
            str(one.get("name")),
            bool(one.get("passed")),
            "warn" if one.get("severity") == "warn" else "error",
            int(one.get("failed") or 0),
            str(one.get("message") or ""),
            tuple(map(str, one.get("sample") or ())),
        )
        for one in (told if isinstance(told, list) else ())
        if isinstance(one, dict)
    )


def _broken(check: Check, tally: CheckTally) -> list[int]:
    failed = tally.failed.get(check.name, {})
    return [one for one, rows in failed.items() if check.threshold.exceeded(rows, tally.rows.get(one, 0))]


def _counted(check: Check, members: MemberSet) -> CheckResult:
    """What the log alone can answer."""
    wrong = _wrong_columns(check, members) if check.kind == "columns" else _wrong_rows(check, members)
    return CheckResult(check.name, wrong is None, check.severity, int(wrong is not None), wrong or "")


def _wrong_rows(check: Check, members: MemberSet) -> str | None:
    return _wrong_number(check, sum(member.live_rows for member in members.candidates(None)))


def _wrong_number(check: Check, rows: int) -> str | None:
    if check.kind == "min_rows" and rows < check.number:
        return f"the table has {count_words(rows, 'row')}; it must have at least {check.number:,}"
    if check.kind == "max_rows" and rows > check.number:
        return f"the table has {count_words(rows, 'row')}; it may have at most {check.number:,}"
    return None


def _wrong_columns(check: Check, members: MemberSet) -> str | None:
    have = [name for name in table_schema(members).names if name != SOURCE]
    missing = [name for name in check.columns if name not in have]
    more = [name for name in have if name not in check.columns] if check.strict else []
    said = [f"{', '.join(missing)} missing"] if missing else []
    said += [f"{', '.join(more)} unexpected"] if more else []
    return f"columns: {'; '.join(said)}" if said else None


def _unique(check: Check, members: MemberSet, session: StartSpark, table: str) -> CheckResult:
    """Rows beyond the first of each key. A key with a null in it equals no other, as in SQL."""
    names = table_schema(members).names
    for name in check.columns:
        if name not in names:
            raise ConfigError(
                f"lading.yaml:{check.line}: {check.key}: {table} has no column {name!r}",
                hint=f"it has {', '.join(one for one in names if one != SOURCE)}; nothing was published",
                table=table,
            )
    live = members.candidates(None)
    rows = sum(member.live_rows for member in live)
    try:
        asked = f"lading.yaml:{check.line}: {check.key}"
        twice = repeats(members, live, check.columns, session, shown=_SAMPLE, asked=asked)
    except ConfigError as error:
        error.table = table
        raise
    columns = ", ".join(check.columns)
    return CheckResult(
        check.name,
        not check.threshold.exceeded(twice.rows, rows),
        check.severity,
        twice.rows,
        f"{columns}: {twice.rows:,} of {rows:,} rows repeat a key" if twice.rows else "",
        twice.keys,
    )
