"""Runs as Prometheus sees them: text for its textfile collector, or for whoever asks `/metrics`.

The format is a few lines of text (Prometheus' exposition format 0.0.4), so no library writes it. Counters
go on from the file that the run before wrote.
"""

from __future__ import annotations

import math
import re
import threading
from pathlib import Path

from lading import clock
from lading.config.project import Config
from lading.errors import LadingError
from lading.log.table import Table
from lading.run import RunReport, TableReport
from lading.signals.phases import Phases
from lading.snapshots.stores.by_url import store_of
from lading.storage.folder import write_atomic

TEXT_TYPE = "text/plain; version=0.0.4; charset=utf-8"  # what HTTP calls the format
_ADDED_UP = 20_000  # parts; of larger tables nobody adds up the bytes after every run
_AT_REST = ("unchanged", "quarantined")

# name -> type and help; what is not listed here is not told
METRICS = {
    "lading_runs_total": ("counter", "Runs of the table, by how they ended."),
    "lading_rows_added_total": ("counter", "Rows that runs added."),
    "lading_rows_removed_total": ("counter", "Rows that runs removed."),
    "lading_rows_rejected_total": ("counter", "Rows that runs set aside."),
    "lading_files_rejected_total": ("counter", "Whole files that runs set aside."),
    "lading_last_run_timestamp_seconds": ("gauge", "When the last run ended."),
    "lading_last_run_seconds": ("gauge", "How long the last run took."),
    "lading_last_run_success": ("gauge", "1 if the last run succeeded, else 0."),
    "lading_phase_seconds": ("gauge", "How long each phase of the last run took."),
    "lading_published_timestamp_seconds": ("gauge", "When what readers see was published."),
    "lading_rows": ("gauge", "Rows in the table."),
    "lading_parts": ("gauge", "Parts of the table."),
    "lading_bytes": ("gauge", "Bytes of the table's parts."),
    "lading_sources": ("gauge", "Source files that the table holds."),
    "lading_sequence": ("gauge", "The last commit of the table."),
    "lading_pending_files": ("gauge", "Files that the last run found and could not take in."),
    "lading_checks_failed": ("gauge", "Checks that failed in the last run."),
}

_Labels = tuple[tuple[str, str], ...]
_LABEL = re.compile(r'([a-zA-Z_]\w*)="((?:[^"\\\n]|\\.)*)"', re.ASCII)
_LINE = re.compile(rf"^(lading_\w+_total)\{{((?:{_LABEL.pattern},?)*)\}} (\S+)$", re.ASCII | re.MULTILINE)


class Metrics:
    """Values by name and labels; may be asked from any thread."""

    def __init__(self) -> None:
        self._values: dict[str, dict[_Labels, float]] = {name: {} for name in METRICS}
        self._lock = threading.Lock()

    def set(self, name: str, value: float, /, **labels: str) -> None:
        with self._lock:
            self._values[name][tuple(labels.items())] = value

    def add(self, name: str, value: float, /, **labels: str) -> None:
        with self._lock:
            values, key = self._values[name], tuple(labels.items())
            values[key] = values.get(key, 0.0) + value

    def clear(self, name: str, /, **labels: str) -> None:
        """Forget every value of `name` with these labels."""
        wanted = set(labels.items())
        with self._lock:
            for key in [key for key in self._values[name] if wanted <= set(key)]:
                del self._values[name][key]

    def text(self) -> str:
        with self._lock:
            lines = []
            for name, (kind, told) in METRICS.items():
                if not self._values[name]:
                    continue
                lines += [f"# HELP {name} {told}", f"# TYPE {name} {kind}"]
                lines += [_line(name, key, value) for key, value in sorted(self._values[name].items())]
        return "\n".join(lines) + "\n" if lines else ""

    def go_on_from(self, text: str) -> None:
        """Take over the counters of an earlier process."""
        for line in _LINE.finditer(text):
            name, labels, value = line[1], line[2], _number(line[5])
            if name in METRICS and value is not None:
                self.set(name, value, **{key: _unescaped(told) for key, told in _LABEL.findall(labels)})


def _number(text: str) -> float | None:
    """None if somebody edited it: that counter starts anew."""
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def _line(name: str, labels: _Labels, value: float) -> str:
    told = ",".join(f'{key}="{_escaped(text)}"' for key, text in labels)
    number = str(int(value)) if value == int(value) else repr(value)
    return f"{name}{{{told}}} {number}" if told else f"{name} {number}"


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


def _unescaped(text: str) -> str:
    return re.sub(r"\\(.)", lambda match: "\n" if match[1] == "n" else match[1], text)


def observe(metrics: Metrics, config: Config, report: RunReport, phases: Phases) -> None:
    """Take in what a run did."""
    for table in report.tables:
        _observe_table(metrics, config, table, phases)


def _observe_table(metrics: Metrics, config: Config, report: TableReport, phases: Phases) -> None:
    table = report.table
    failed = report.error is not None
    metrics.add("lading_runs_total", 0, table=table, result="failed")
    metrics.add("lading_runs_total", 0, table=table, result="succeeded")
    metrics.add("lading_runs_total", 1, table=table, result="failed" if failed else "succeeded")
    metrics.add("lading_rows_added_total", report.rows_added, table=table)
    metrics.add("lading_rows_removed_total", report.rows_removed, table=table)
    metrics.add("lading_rows_rejected_total", report.rows_rejected, table=table)
    metrics.add("lading_files_rejected_total", report.files_rejected, table=table)
    metrics.set("lading_last_run_timestamp_seconds", round(clock.now().timestamp(), 3), table=table)
    metrics.set("lading_last_run_seconds", round(report.seconds, 3), table=table)
    metrics.set("lading_last_run_success", 0 if failed else 1, table=table)
    pending = sum(n for verdict, n in report.verdicts.items() if verdict not in _AT_REST) if failed else 0
    metrics.set("lading_pending_files", pending, table=table)
    metrics.set("lading_checks_failed", sum(not one.passed for one in report.checks), table=table)
    metrics.clear("lading_phase_seconds", table=table)
    for phase, seconds in phases.take(table).items():
        metrics.set("lading_phase_seconds", round(seconds, 4), table=table, phase=phase)
    try:
        _observe_state(metrics, config, table)
    except (LadingError, OSError):
        return  # a run that could not open the table has said why


def _observe_state(metrics: Metrics, config: Config, table: str) -> None:
    place = config.place(table)
    if not Table.exists(place):
        return
    opened = Table.open(place)
    try:
        state = opened.state
        metrics.set("lading_rows", state.row_count(), table=table)
        metrics.set("lading_parts", state.count(), table=table)
        if state.count() <= _ADDED_UP:
            size = sum(member.bytes for member in state.candidates(None))
            metrics.set("lading_bytes", size, table=table)
        metrics.set("lading_sources", state.source_count(), table=table)
        metrics.set("lading_sequence", state.sequence, table=table)
    finally:
        opened.close()
    current = store_of(config, table).load_current()
    if current is not None:
        at = round(current.published_at.timestamp(), 3)
        metrics.set("lading_published_timestamp_seconds", at, table=table)


def present(config: Config) -> Metrics:
    """What can be told without a run: the state of each table, and counters as the last run wrote them to
    the file that `metrics:` names."""
    metrics = Metrics()
    if config.metrics_file is not None:
        read_textfile(metrics, config.metrics_file)
    for table in config.tables:
        try:
            _observe_state(metrics, config, table)
        except (LadingError, OSError):
            continue  # one table that can't be opened hides no other
    return metrics


def write_textfile(metrics: Metrics, path: Path) -> None:
    """Whole or not at all, as the collector wants it."""
    write_atomic(path, metrics.text().encode())


def read_textfile(metrics: Metrics, path: Path) -> None:
    try:
        metrics.go_on_from(path.read_text(encoding="utf-8", errors="replace"))
    except OSError:
        return  # there is none yet, or it can't be read: counters start anew, as after any restart
