"""Awkward files at first try: how many come out right, beside DuckDB's sniffer on the same files."""

import pytest
from formats.sniff.corpus import CASES
from formats.sniff.judge import judge_duckdb, judge_lading

BAR = 114  # of the files in the corpus: never lower


def test_the_corpus_holds_a_file_of_each_name_once():
    assert len({case.name for case in CASES}) == len(CASES) >= BAR


def test_awkward_files_come_out_right_at_first_try(tmp_path):
    wrong = {case.name: said for case in CASES if (said := judge_lading(case, tmp_path))}
    assert len(CASES) - len(wrong) >= BAR, wrong


def test_more_of_them_than_with_duckdb(tmp_path):
    right = sum(not judge_duckdb(case, tmp_path) for case in CASES)
    assert 40 < right < BAR


@pytest.mark.parametrize("name", ["plain", "decimal comma", "name twice"])
def test_the_judge_notices_what_is_wrong(name, tmp_path):
    case = next(case for case in CASES if case.name == name)
    other = case.data.replace(b"Aurora", b"Borea")
    said = judge_lading(type(case)(case.name, case.file, other, case.columns, case.rows), tmp_path)
    assert said == "row 1 has 'Borea' instead of 'Aurora'"
