"""bench/results.json, and RESULTS.md made from it: one table and one picture a job.

results.json has figures and nothing else, `{job: {size: {…}}}`, so that a script may walk it blindly.
When, where and with which versions each job was run stands in about.json: jobs are run apart.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bench import pictures
from bench.case import Case, Job

PAGE = "RESULTS.md"
_PACKAGES = (
    "lading", "pyspark", "pyarrow", "deltalake", "pyiceberg", "duckdb", "duckdb-extension-ducklake", "polars",
    "rocksdict", "lmdb", "dlt", "numpy", "msgspec",
)  # fmt: skip
_TOP = """\
# What the bench found

`make bench` wrote this page; docs/bench.md says how to read it. Figures are medians of turns taken one
after the other in the same run; **ratios are the result**, absolute times are context.

"""


class Results:
    """The results in one folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._figures = folder / "results.json"
        self._about = folder / "about.json"

    def figures(self) -> dict[str, dict[str, dict[str, Any]]]:
        return dict(_load(self._figures))

    def about(self) -> dict[str, dict[str, Any]]:
        return dict(_load(self._about))

    def begin(self, job: Job, *, keep: bool = False) -> None:
        """What an earlier run of the job left goes, unless only some of its sizes are run again."""
        if not keep:
            _save(self._figures, self.figures() | {job.name: {}})
        _save(self._about, self.about() | {job.name: about_now() | {"title": job.title, "how": job.about}})

    def add(self, job: Job, case: Case, seconds: float) -> None:
        figures, about = self.figures(), self.about()
        figures.setdefault(job.name, {})[case.size] = case.as_json()
        about[job.name]["seconds"] = round(seconds, 1)
        _save(self._figures, figures)
        _save(self._about, about)

    def note(self, name: str, trouble: str) -> None:
        """Why the job did not come to its end."""
        about = self.about()
        _save(self._about, about | {name: about.get(name, {}) | {"trouble": trouble}})

    def write_pages(self) -> None:
        """RESULTS.md and its pictures, from what results.json has."""
        figures, about = self.figures(), self.about()
        (self.folder / "pictures").mkdir(parents=True, exist_ok=True)
        sections = []
        for name, cases in figures.items():
            if cases:
                picture = self.folder / "pictures" / f"{name}.svg"
                picture.write_text(pictures.picture(about.get(name, {}).get("title", name), cases))
                sections.append(_section(name, cases, about.get(name, {})))
        page = _TOP + _overview(figures, about) + "\n" + "\n".join(sections)
        (self.folder / PAGE).write_text(page)


def about_now() -> dict[str, Any]:
    """The machine, the moment and the versions."""
    return {
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "commit": _git("rev-parse", "--short", "HEAD")
        + ("+" if _git("status", "--porcelain", "src") else ""),
        "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores, {_memory()}",
        "load": round(os.getloadavg()[0], 1),
        "python": platform.python_version(),
        "versions": {name: version for name in _PACKAGES if (version := _version(name)) is not None},
    }


def one_line(case: Case) -> str:
    """For the terminal."""
    found = case.as_json()
    peers = "".join(f", {name} {shown(value, case.unit)}" for name, value in found["peers"].items())
    floor = "" if found["floor"] is None else f", floor {shown(found['floor'], case.unit)}"
    return f"{case.size}: {shown(found['lading'], case.unit)}{peers}{floor}: {_outcome(found)}"


def summary(results: Results, names: Iterable[str]) -> str:
    """How many bars were met, and which were not."""
    figures = results.figures()
    cases = [(job, size, case) for job in names for size, case in figures.get(job, {}).items()]
    missed = [f"  missed: {job}, {size}: {_found(case)}" for job, size, case in cases if not case["met"]]
    about = results.about()
    empty = [f"  nothing measured: {job}" for job in names if not figures.get(job)]
    empty += [
        f"  not to its end: {job}: {about[job]['trouble']}"
        for job in names
        if "trouble" in about.get(job, {})
    ]
    return "\n".join([f"{_tally([case for _, _, case in cases])} bars met", *missed, *empty])


def shown(value: float | str | None, unit: str) -> str:
    """A figure as people read it: 3.2 ms, 1,250/s, 0.8 %."""
    if value is None:
        return "-"
    if isinstance(value, str):
        return value
    if unit.startswith("s"):
        return _seconds(value) + unit[1:]
    if unit == "of a full build":
        return f"{value * 100:.3g} %"
    return f"{_number(value)}{'' if unit.startswith('/') else ' '}{unit}"


def _seconds(value: float) -> str:
    for limit, scale, name in ((1e-3, 1e6, "µs"), (1.0, 1e3, "ms")):
        if value < limit:
            return f"{value * scale:.3g} {name}"
    return f"{value:.3g} s" if value < 1000 else f"{value:,.0f} s"


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _overview(figures: dict[str, dict[str, dict[str, Any]]], about: dict[str, dict[str, Any]]) -> str:
    lines = ["| job | bars met | missed |", "|---|---|---|"]
    for name, cases in figures.items():
        missed = [f"{size}: {_found(case)}" for size, case in cases.items() if not case["met"]]
        trouble = about.get(name, {}).get("trouble")
        missed += [f"**it did not come to its end**: {trouble}"] if trouble else []
        met = _tally(list(cases.values())) if cases else "nothing measured"
        lines.append(f"| [{name}](#{name}) | {met} | {'<br>'.join(missed)} |")
    return "\n".join(lines) + "\n"


def _tally(cases: Sequence[dict[str, Any]]) -> str:
    """Those that are shown and not promised don't count, unless lading failed."""
    asked = [case for case in cases if case["clauses"] or not case["met"]]
    return f"{sum(case['met'] for case in asked)} of {len(asked)}"


def _section(name: str, cases: dict[str, dict[str, Any]], about: dict[str, Any]) -> str:
    peers = list(dict.fromkeys(peer for case in cases.values() for peer in case["peers"]))
    floors = list(dict.fromkeys(floor for case in cases.values() for floor in case["floors"]))
    head = ["size", "**lading**", *peers, *(f"*{floor}*" for floor in floors)]
    head += ["x floor"] if floors else []
    head += ["bar", "met"]
    rows = [_cells(size, case, peers, floors) for size, case in cases.items()]
    first, _, rest = about.get("how", "").partition("\n\n")
    text = [f"## {name}", "", first.partition(": ")[2].capitalize() or about.get("title", "")]
    text += ["", _table(head, rows), "", f"![{name}](pictures/{name}.svg)", "", rest.strip(), ""]
    return "\n".join([*text, *_beside(cases), _context(about), ""])


def _cells(size: str, case: dict[str, Any], peers: Sequence[str], floors: Sequence[str]) -> list[str]:
    unit = case["unit"]
    cells = [size, f"**{shown(case['lading'], unit)}**"]
    for peer in peers:
        times = case["times_better_than"].get(peer)
        ratio = f" ({_number(times)}x)" if times else ""
        cells.append(shown(case["peers"].get(peer), unit) + ratio)
    cells += [shown(case["floors"].get(floor), unit) for floor in floors]
    if floors:
        ratio = case["ratio_to_floor"]
        cells.append("-" if ratio is None else f"{_number(ratio)}x")
    return [*cells, case["bar"], _outcome(case)]


def _outcome(case: dict[str, Any]) -> str:
    if not case["clauses"]:
        return "-" if case["met"] else "**failed**"
    return ("met: " if case["met"] else "**missed**: ") + _found(case)


def _found(case: dict[str, Any]) -> str:
    if isinstance(case["lading"], str):
        return case["lading"]
    return "; ".join(("" if one["met"] else f"not {one['bar']}: ") + one["found"] for one in case["clauses"])


def _beside(cases: dict[str, dict[str, Any]]) -> Iterator[str]:
    for size, case in cases.items():
        if case["extra"]:
            figures = ", ".join(f"{name} {_number(value)}" for name, value in case["extra"].items())
            yield f"- {size}: {figures}"
    if any(case["extra"] for case in cases.values()):
        yield ""


def _context(about: dict[str, Any]) -> str:
    versions = ", ".join(f"{name} {version}" for name, version in about.get("versions", {}).items())
    return (
        f"*{about.get('date')}, commit {about.get('commit')}, {about.get('machine')}, "
        f"load {about.get('load')} at the start, took {about.get('seconds')} s. "
        f"Python {about.get('python')}, {versions}.*"
    )


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


def _load(path: Path) -> Any:
    return json.loads(path.read_text()) if path.exists() else {}


def _save(path: Path, value: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_name(f".{path.name}")
    fresh.write_text(json.dumps(value, indent=1, ensure_ascii=False) + "\n")
    fresh.rename(path)


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _git(*words: str) -> str:
    try:
        said = subprocess.run(["git", *words], capture_output=True, text=True, cwd=Path(__file__).parent)
    except FileNotFoundError:
        return ""
    return said.stdout.strip()


def _memory() -> str:
    if sys.platform == "win32" or "SC_PHYS_PAGES" not in os.sysconf_names:
        return "memory unknown"
    return f"{os.sysconf('SC_PHYS_PAGES') * os.sysconf('SC_PAGE_SIZE') / (1 << 30):.0f} GB"
