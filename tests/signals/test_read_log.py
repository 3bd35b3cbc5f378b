"""The log read back: what a page shows of a run, however long the log has become."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

from lading.signals.read_log import newest, of_run, phases_in

BEGIN = datetime(2024, 3, 1, tzinfo=UTC)
PHASES = ("discover", "plan", "ingest", "done")


def lines_of(run: int, pid: int, table: str = "voyages") -> list[str]:
    """A run of four seconds, the `run`-th minute."""
    at = BEGIN + timedelta(minutes=run)
    told = [{"at": at.isoformat(), "event": "run started", "pid": pid, "tables": [table]}]
    for number, phase in enumerate(PHASES):
        past = {"after": PHASES[number - 1], "seconds": 0.5 + number} if number else {}
        moment = (at + timedelta(seconds=number)).isoformat()
        told.append({"at": moment, "event": "phase", "pid": pid, "table": table, "phase": phase, **past})
    ended = (at + timedelta(seconds=4)).isoformat()
    told.append({"at": ended, "event": "run finished", "pid": pid, "run_id": f"run-{run}", "tables": []})
    return [json.dumps(one) for one in told]


def of(path: Path, run: int, pid: int) -> list[dict]:
    started = BEGIN + timedelta(minutes=run, seconds=1)  # a record begins when rows change
    return of_run(path, pid, f"run-{run}", started, started + timedelta(seconds=3))


def test_the_newest_lines_come_from_the_end(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    assert newest(path, 5) == []
    path.write_text("\n".join(json.dumps({"n": n, "text": "x" * 500}) for n in range(2000)) + "\n")
    assert [one["n"] for one in newest(path, 3)] == [1997, 1998, 1999]
    assert [one["n"] for one in newest(path, 2, lambda line: line["n"] % 1000 == 0)] == [0, 1000]
    assert len(newest(path, 5000)) == 2000


def test_a_torn_line_hides_no_other(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_bytes(b'{"n": 1}\n{"n": 2, "te\n\n[1]\n{"n": 3}\n{"n": 4')
    assert [one["n"] for one in newest(path, 9)] == [1, 3]


def test_each_run_finds_its_own_lines_among_those_of_others(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    runs = [(run, 100 + run % 3) for run in range(400)]
    path.write_text("".join(line + "\n" for run, pid in runs for line in lines_of(run, pid)))
    for run, pid in (runs[0], runs[1], runs[200], runs[-1]):
        found = of(path, run, pid)
        assert [one["event"] for one in found] == ["run started", *["phase"] * 4, "run finished"]
        assert found[-1]["run_id"] == f"run-{run}"
        assert phases_in(found, "voyages") == {"discover": 1.5, "plan": 2.5, "ingest": 3.5}
        assert phases_in(found, "ports") == {}


def test_runs_at_the_same_time_are_told_apart_by_their_process(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    mixed = [line for pair in zip(lines_of(1, 11), lines_of(1, 22, "ports"), strict=True) for line in pair]
    path.write_text("\n".join(mixed) + "\n")
    assert {one["pid"] for one in of(path, 1, 11)} == {11}
    assert phases_in(of(path, 1, 22), "ports") == {"discover": 1.5, "plan": 2.5, "ingest": 3.5}


def test_a_run_that_was_killed_ends_where_its_lines_do(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_text("\n".join([*lines_of(1, 11)[:4], *lines_of(2, 22)]) + "\n")
    started = BEGIN + timedelta(minutes=1, seconds=1)
    found = of_run(path, 11, "run-1", started, None)
    assert [one["event"] for one in found] == ["run started", "phase", "phase", "phase"]


def test_a_watcher_tells_its_phases_with_the_end_and_each_run_has_its_own(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    lines = []
    for run in (1, 2, 3):
        at = (BEGIN + timedelta(minutes=run, seconds=3)).isoformat()
        told = {
            "at": at,
            "event": "watch: run finished",
            "pid": 7,
            "run_id": f"run-{run}",
            "table": "voyages",
        }
        lines.append(json.dumps({**told, "phases": {"ingest": float(run)}}))
    path.write_text("\n".join(lines) + "\n")
    for run in (1, 2, 3):
        assert phases_in(of(path, run, 7), "voyages") == {"ingest": float(run)}
