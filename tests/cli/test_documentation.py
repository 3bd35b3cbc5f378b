"""The pages say what the commands do, and `make acceptance` says what the tests show."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from lading.cli.main import app

ROOT = Path(__file__).parents[2]


def names_of_commands() -> list[str]:
    return list(app.functions())


def test_every_command_is_documented():
    page = (ROOT / "docs" / "reference" / "cli.md").read_text(encoding="utf-8")
    for command in names_of_commands():
        assert f"\n## lading {command}\n" in page


def test_the_generated_page_is_up_to_date_and_a_stale_one_is_noticed(tmp_path):
    script = ROOT / "scripts" / "gen_docs.py"
    assert subprocess.run([sys.executable, script, "--check"], timeout=60).returncode == 0
    (tmp_path / "scripts").mkdir()
    copy = tmp_path / "scripts" / "gen_docs.py"
    copy.write_bytes(script.read_bytes())
    assert subprocess.run([sys.executable, copy, "--check"], capture_output=True, timeout=60).returncode == 1


def test_every_command_is_in_the_guide():
    guide = (ROOT / "docs" / "guide.md").read_text(encoding="utf-8")
    for command in names_of_commands():
        assert f"lading {command}" in guide


IDS = [
    f"{letter}{n}"
    for letter, count in {"F": 28, "C": 28, "M": 24, "S": 27, "T": 22, "I": 15}.items()
    for n in range(1, count + 1)
]


def acceptance(folder: Path, tests: str) -> subprocess.CompletedProcess[str]:
    """`make acceptance` over these tests."""
    (folder / "scripts").mkdir()
    (folder / "tests").mkdir()
    (folder / "scripts" / "acceptance.py").write_bytes((ROOT / "scripts" / "acceptance.py").read_bytes())
    (folder / "pytest.ini").write_text("[pytest]\nmarkers =\n    acceptance(*ids): x\n")
    (folder / "tests" / "test_it.py").write_text("import pytest\n" + tests)
    command = [sys.executable, str(folder / "scripts" / "acceptance.py"), "-p", "no:cacheprovider"]
    quick = os.environ | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    return subprocess.run(command, capture_output=True, text=True, cwd=folder, env=quick, timeout=60)


def test_acceptance_prints_one_line_an_id(tmp_path):
    found = acceptance(
        tmp_path,
        "@pytest.mark.acceptance('C1', 'C2')\n"
        "def test_a(): print('noise')\n"
        "@pytest.mark.acceptance('C2')\n"
        "@pytest.mark.parametrize('n', [1, 2])\n"
        "def test_b(n): assert n == 1\n"
        "@pytest.mark.acceptance('C3')\n"
        "def test_c(): pytest.skip('later')\n"
        "def test_not_marked(): raise AssertionError\n",
    )
    lines = dict(line.split(" ", 1) for line in found.stdout.splitlines())
    assert list(lines) == IDS
    assert lines["C1"] == "pass test_a"
    assert lines["C2"] == "fail test_a test_b"
    assert lines["C3"] == "fail test_c"
    assert lines["T20"] == "fail (no test)"
    assert found.returncode == 1
    assert found.stderr.splitlines()[-1] == "fail: C2 C3"


@pytest.mark.parametrize(
    ("left_out", "skipped", "said"),
    [(None, None, ""), ("T20", None, "no test: T20"), (None, "M3", "fail: M3")],
    ids=["all shown", "no test", "skipped"],
)
def test_acceptance_fails_and_names_the_id_that_no_test_shows(tmp_path, left_out, skipped, said):
    shown = [one for one in IDS if one not in (left_out, skipped)]
    tests = f"@pytest.mark.acceptance(*{shown!r})\ndef test_a(): pass\n"
    if skipped:
        tests += f"@pytest.mark.acceptance({skipped!r})\ndef test_b(): pytest.skip('later')\n"
    found = acceptance(tmp_path, tests)
    assert found.returncode == (1 if said else 0), found.stderr
    assert not said or found.stderr.splitlines()[-1] == said
    assert found.stdout.count(" pass ") == len(shown)


def test_every_id_has_a_test():
    """Here too, where every change is tested: `make acceptance` itself runs for minutes."""
    marks = [
        mark
        for file in (ROOT / "tests").rglob("test_*.py")
        for mark in re.findall(r"mark\.acceptance\(([^)]*)\)", file.read_text(encoding="utf-8"))
    ]
    shown = set(re.findall(r"[FCMSTI][0-9]+", " ".join(marks)))
    assert [one for one in IDS if one not in shown] == []
