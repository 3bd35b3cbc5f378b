"""The pages say what the commands do, and `make acceptance` says what the tests show."""

import subprocess
import sys
from pathlib import Path

import pytest

from lading.cli.main import app

ROOT = Path(__file__).parents[2]


def names_of_commands() -> list[str]:
    inner = [
        f"{group.name} {one.name}"
        for group in app.registered_groups
        for one in group.typer_instance.registered_commands
    ]
    return [*(str(one.name) for one in app.registered_commands), *inner]


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


@pytest.fixture
def acceptance(tmp_path):
    """`make acceptance` over three small tests."""
    (tmp_path / "scripts").mkdir()
    (tmp_path / "tests").mkdir()
    (tmp_path / "scripts" / "acceptance.py").write_bytes((ROOT / "scripts" / "acceptance.py").read_bytes())
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers =\n    acceptance(*ids): x\n")
    (tmp_path / "tests" / "test_it.py").write_text(
        "import pytest\n"
        "@pytest.mark.acceptance('C1', 'C2')\n"
        "def test_a(): print('noise')\n"
        "@pytest.mark.acceptance('C2')\n"
        "@pytest.mark.parametrize('n', [1, 2])\n"
        "def test_b(n): assert n == 1\n"
        "@pytest.mark.acceptance('C3')\n"
        "def test_c(): pytest.skip('later')\n"
        "def test_not_marked(): raise AssertionError\n"
    )
    command = [sys.executable, str(tmp_path / "scripts" / "acceptance.py"), "-p", "no:cacheprovider"]
    return subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=60)


def test_acceptance_prints_one_line_an_id(acceptance):
    lines = dict(line.split(" ", 1) for line in acceptance.stdout.splitlines())
    assert len(lines) == 28 + 28 + 24 + 27 + 22
    assert lines["C1"] == "pass test_a"
    assert lines["C2"] == "fail test_a test_b"
    assert lines["C3"] == "fail test_c"
    assert lines["T20"] == "fail (no test)"
    assert acceptance.returncode == 1
