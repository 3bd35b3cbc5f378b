"""results.json, RESULTS.md and the pictures: their shape, and that one job leaves the others alone."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.bars import at_most_floor
from bench.case import Case, Job, Kit, label
from bench.harness import Measured
from bench.registry import JOBS
from bench.report import Results, one_line, shown, summary

ISSUE_KEYS = {"lading", "peers", "floor", "ratio_to_floor", "bar", "met"}


def case(size: int, lading: float, floor: float = 1.0) -> Case:
    measured = {
        "lading": Measured("lading", (lading, lading, lading)),
        "peer": Measured("peer", (8.0,)),
        "broken": Measured("peer", (), "ImportError: no"),
        "floor": Measured("floor", (floor, floor)),
        "softer floor": Measured("floor", (floor * 3,)),
    }
    return Case(label(size), size, "s", "lower", measured, [at_most_floor(1.5)])


def nothing(kit: Kit) -> Iterator[Case]:
    return iter(())


def job(name: str) -> Job:
    return Job(name, f"The {name}", f"{name}: how it goes.\n\nMore of it.", nothing)


def test_results_have_the_shape_that_scripts_walk(tmp_path: Path) -> None:
    results = Results(tmp_path)
    results.begin(job("first"))
    results.add(job("first"), case(1_000, 1.4), 2.0)
    results.add(job("first"), case(100_000, 2.0), 3.0)
    written = json.loads((tmp_path / "results.json").read_text())
    assert list(written) == ["first"] and list(written["first"]) == ["1k", "100k"]
    for sizes in written.values():
        for one in sizes.values():
            assert one.keys() >= ISSUE_KEYS
    met, missed = written["first"].values()
    assert (met["lading"], met["floor"], met["ratio_to_floor"], met["met"]) == (1.4, 1.0, 1.4, True)
    assert met["peers"] == {"peer": 8.0, "broken": "failed: ImportError: no"}
    assert met["bar"] == "≤ 1.5x floor"
    assert (missed["met"], missed["ratio_to_floor"]) == (False, 2.0)


def test_the_hardest_floor_is_the_one_that_counts() -> None:
    assert case(1, 2.0).floor == 1.0
    rates = Case("1", 1, "/s", "higher", case(1, 2.0).measured)
    assert rates.floor == 3.0


def test_one_job_replaces_its_own_part_and_nothing_else(tmp_path: Path) -> None:
    results = Results(tmp_path)
    for name in ("first", "second"):
        results.begin(job(name))
        results.add(job(name), case(1_000, 1.0), 1.0)
        results.add(job(name), case(10_000, 1.0), 1.0)
    before = results.figures()
    results.begin(job("second"))
    results.add(job("second"), case(1_000, 5.0), 1.0)
    after = results.figures()
    assert after["first"] == before["first"]
    assert list(after["second"]) == ["1k"] and after["second"]["1k"]["lading"] == 5.0
    results.begin(job("first"), keep=True)  # one size alone
    results.add(job("first"), case(10_000, 7.0), 1.0)
    assert results.figures()["first"]["1k"] == before["first"]["1k"]
    assert results.figures()["first"]["10k"]["lading"] == 7.0


def test_the_page_shows_what_was_lost_and_who_failed(tmp_path: Path) -> None:
    results = Results(tmp_path)
    results.begin(job("first"))
    results.add(job("first"), case(1_000, 9.0), 1.0)
    results.write_pages()
    page = (tmp_path / "RESULTS.md").read_text()
    assert "**missed**: not ≤ 1.5x floor: 9x" in page
    assert "failed: ImportError: no" in page
    assert "![first](pictures/first.svg)" in page
    for fact in ("commit ", "cores", "Python ", "lading ", "UTC"):
        assert fact in page
    said = summary(results, ["first", "second"])
    assert "0 of 1 bars met" in said and "missed: first, 1k" in said and "nothing measured: second" in said


def test_a_job_that_did_not_come_to_its_end_says_so_until_it_is_run_again(tmp_path: Path) -> None:
    results = Results(tmp_path)
    results.begin(job("first"))
    results.note("first", "KeyError: x")
    results.write_pages()
    line = "| [first](#first) | nothing measured | **it did not come to its end**: KeyError: x |"
    assert line in (tmp_path / "RESULTS.md").read_text()
    assert "not to its end: first: KeyError: x" in summary(results, ["first"])
    results.begin(job("first"))
    results.write_pages()
    assert "KeyError" not in (tmp_path / "RESULTS.md").read_text()


def test_the_picture_is_whole_and_has_everybody_who_was_measured(tmp_path: Path) -> None:
    results = Results(tmp_path)
    results.begin(job("first"))
    for size in (0, 1_000, 100_000):
        results.add(job("first"), case(size, 0.001 * (size + 1)), 1.0)
    results.write_pages()
    root = ElementTree.fromstring((tmp_path / "pictures" / "first.svg").read_text())
    texts = [element.text for element in root.iter() if element.tag.endswith("text")]
    assert {"lading", "peer", "broken (none)", "floor: floor"} <= set(texts)
    lines = [element for element in root.iter() if element.tag.endswith("polyline")]
    assert [len(line.attrib["points"].split()) for line in lines] == [3, 3, 0, 3, 3]


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (0.0000123, "s", "12.3 µs"),
        (0.0123, "s", "12.3 ms"),
        (12.3, "s", "12.3 s"),
        (0.0000123, "s a file", "12.3 µs a file"),
        (1234.5, "/s", "1,234/s"),
        (0.0123, "of a full build", "1.23 %"),
        (321.0, "MB", "321 MB"),
        (None, "s", "-"),
        ("failed: x", "s", "failed: x"),
    ],
)
def test_figures_are_shown_as_people_read_them(value: float | str | None, unit: str, text: str) -> None:
    assert shown(value, unit) == text


def test_sizes_are_chosen_by_label_or_number(tmp_path: Path) -> None:
    for only in ("10k", "10000"):
        assert Kit(tmp_path, tmp_path, only=only).sizes([1_000, 10_000], [1], [1]) == [10_000]
    assert Kit(tmp_path, tmp_path, "quick").sizes([1_000], [10, 20], [1]) == [10, 20]
    assert [label(n) for n in (0, 999, 1_000, 2_500_000)] == ["0", "999", "1k", "2.5M"]


def test_every_job_of_the_table_is_there() -> None:
    assert list(JOBS) == [
        "plan", "key_to_file", "commit", "lookup", "get", "multi_get", "shard_build",
        "noop", "record", "ingest", "formats", "driver", "spread", "change", "evolve", "chain", "publish",
        "memory", "worker", "watch",
    ]  # fmt: skip
    for name, one in JOBS.items():
        assert one.name == name and one.about.strip() and "\n\n" in one.about


def test_a_case_is_one_line_on_the_terminal() -> None:
    assert one_line(case(1_000, 1.4)) == (
        "1k: 1.4 s, peer 8 s, broken failed: ImportError: no, floor 1 s: met: 1.4x"
    )
