"""lading init: a project that works as it is written."""

import csv
import re
import subprocess
import sys
from pathlib import Path

from lading.cli.main import invoke
from lading.config.file import load


def test_the_starter_is_a_valid_project(tmp_path, capsys):
    project = tmp_path / "shipping"
    assert invoke(["init", str(project)]) == 0
    table = load(project).table("voyages")
    assert table.transform == "transforms/voyages.py:clean"
    assert (project / "transforms" / "voyages.py").is_file()
    assert "make_sample_data.py" in capsys.readouterr().out


def test_the_sample_data_fits_the_config_and_is_the_same_every_time(tmp_path):
    invoke(["init", str(tmp_path)])
    table = load(tmp_path).table("voyages")

    def generate() -> dict[str, bytes]:
        subprocess.run([sys.executable, "make_sample_data.py"], cwd=tmp_path, check=True, capture_output=True)
        return {path.name: path.read_bytes() for path in (tmp_path / "data" / "voyages").iterdir()}

    files = generate()
    assert len(files) == 12
    assert table.columns_from_name is not None
    assert all(re.fullmatch(table.columns_from_name, name) for name in files)
    rows = list(csv.DictReader(files["hamburg_20240301.csv"].decode().splitlines()))
    assert len(rows) == 200
    assert table.order_by in rows[0]
    assert generate() == files


def test_nothing_is_ever_overwritten(tmp_path, capsys):
    (tmp_path / "transforms").mkdir()
    mine = tmp_path / "transforms" / "voyages.py"
    mine.write_text("# mine\n")
    assert invoke(["init", str(tmp_path)]) == 3
    assert "transforms/voyages.py" in capsys.readouterr().err
    assert mine.read_text() == "# mine\n"
    assert not (tmp_path / "lading.yaml").exists()


def test_init_goes_where_the_project_option_says(tmp_path):
    assert invoke(["-C", str(tmp_path), "init", "inner"]) == 0
    assert (tmp_path / "inner" / "lading.yaml").is_file()


def test_a_folder_that_cannot_be_made_is_an_error_with_a_hint(tmp_path, capsys):
    (tmp_path / "file").write_text("")
    assert invoke(["init", str(Path(tmp_path, "file", "project"))]) == 3
    assert "can't write" in capsys.readouterr().err
