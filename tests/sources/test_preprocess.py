"""Preprocess scripts, from lading.yaml to rows, on the driver and in Spark tasks."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.archives import aged, zip_of

import lading
from lading.config.file import load as load_config
from lading.errors import ConfigError, LadingError, PreprocessError
from lading.run import RunReport, plan_tables, run

DECODE = """\
from pathlib import Path


def process(path, out_dir, *, shift=0, **options):
    with open(Path({calls!r}), "a") as calls:
        calls.write(path.name + "\\n")
    numbers = path.read_text().split()
    rows = "".join(f"{{int(n) + shift}}\\n" for n in numbers)
    (out_dir / "sub").mkdir()
    (out_dir / "sub" / "n.csv").write_text("n\\n" + rows)
    (out_dir / "notes.txt").write_text("not read")
"""
TOGETHER = """\
def process(path, out_dir):
    rows = sorted(int(n) for file in path.rglob("*.raw") for n in file.read_text().split())
    (out_dir / "all.csv").write_text("n\\n" + "".join(f"{n}\\n" for n in rows))
"""


class Raw:
    def __init__(self, folder: Path, preprocess: str) -> None:
        self.folder = folder
        self.calls = folder / "calls"
        (folder / "scripts").mkdir()
        self.script(DECODE)
        self.config(preprocess)
        self.put("a.raw", "1 2")
        self.put("b.raw", "3")

    def config(self, preprocess: str) -> None:
        text = "tables:\n  numbers:\n    root: data\n    path: '**/*.raw'\n    inside: '**/*.csv'\n"
        (self.folder / "lading.yaml").write_text(f"{text}    format: csv\n    preprocess: {preprocess}\n")

    def script(self, text: str) -> None:
        (self.folder / "scripts" / "decode.py").write_text(
            text.format(calls=str(self.calls)) if "{calls" in text else text
        )

    def put(self, name: str, text: str, age: float = 100) -> None:
        path = self.folder / "data" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        aged(path, age)

    def run(self) -> RunReport:
        report = run(load_config(self.folder), allow_vanish=True)
        if report.error is not None:
            raise report.error
        return report

    def called(self) -> list[str]:
        names = sorted(self.calls.read_text().split()) if self.calls.exists() else []
        self.calls.unlink(missing_ok=True)
        return names

    def numbers(self) -> list[int]:
        with lading.open(self.folder / "warehouse" / "numbers") as reader:
            return sorted(reader.scan().to_table()["n"].to_pylist())

    def manifest(self) -> dict:
        return json.loads((self.folder / "manifest" / "numbers.json").read_text())


ACTION = "{action: scripts/decode.py:process}"


@pytest.mark.parametrize("where", ["driver", "cluster"])
def test_a_script_is_run_once_for_each_file_and_again_when_the_file_changed(tmp_path, spark, where):
    raw = Raw(tmp_path, f"{{action: scripts/decode.py:process, where: {where}}}")
    raw.run()
    assert raw.called() == ["a.raw", "b.raw"] and raw.numbers() == [1, 2, 3]
    assert not raw.run().spark_started and raw.called() == []
    raw.put("b.raw", "30", age=50)
    raw.run()
    assert raw.called() == ["b.raw"] and raw.numbers() == [1, 2, 30]
    (tmp_path / "data" / "a.raw").unlink()
    raw.run()
    assert raw.called() == [] and raw.numbers() == [30]
    assert list(raw.manifest()["preprocessing"]) == ["b.raw"]


@pytest.mark.acceptance("F13", "F14")
def test_what_a_script_did_is_recorded_by_file(tmp_path, spark):
    raw = Raw(tmp_path, ACTION)
    raw.run()
    manifest = raw.manifest()
    entry = manifest["preprocessing"]["a.raw"]
    stat = (tmp_path / "data" / "a.raw").stat()
    assert entry["file_hash"] == f"mtime:{stat.st_mtime}_size:{stat.st_size}"
    assert entry["action"] == "scripts/decode.py:process"
    assert (tmp_path / entry["preprocessed_path"] / "sub" / "n.csv").read_text() == "n\n1\n2\n"
    folder = Path(entry["preprocessed_path"]).name
    assert f"{folder}/sub/n.csv" in manifest["files"]
    assert manifest["files"][f"{folder}/sub/n.csv"]["archive"] == "a.raw"


def test_other_code_or_other_options_mean_that_everything_is_made_and_read_again(tmp_path, spark):
    raw = Raw(tmp_path, ACTION)
    raw.run()
    raw.called()
    raw.config("{action: scripts/decode.py:process, options: {shift: 100}}")
    (plan,) = plan_tables(load_config(tmp_path))
    assert [(one.key, one.verdict) for one in plan.files] == [("a.raw", "changed"), ("b.raw", "changed")]
    assert raw.called() == []
    raw.run()
    assert raw.called() == ["a.raw", "b.raw"] and raw.numbers() == [101, 102, 103]
    raw.script(DECODE.replace("int(n) + shift", "int(n) - shift"))
    raw.run()
    assert raw.called() == ["a.raw", "b.raw"] and raw.numbers() == [-99, -98, -97]


def test_a_touched_file_is_not_decoded_again(tmp_path, spark):
    raw = Raw(tmp_path, ACTION)
    raw.run()
    raw.called()
    raw.put("a.raw", "1 2", age=10)
    assert not raw.run().spark_started and raw.called() == []
    (plan,) = plan_tables(load_config(tmp_path))
    assert plan.idle


@pytest.mark.parametrize("where", ["driver", "cluster"])
def test_a_global_script_sees_all_files_at_once_and_nothing_else(tmp_path, spark, where):
    raw = Raw(tmp_path, f"{{action: scripts/decode.py:process, scope: global, where: {where}}}")
    raw.script(TOGETHER)
    (tmp_path / "data" / "secret.txt").write_text("9")
    raw.run()
    assert raw.numbers() == [1, 2, 3]
    assert list(raw.manifest()["preprocessing"]) == ["**/*.raw"]
    assert not raw.run().spark_started
    (tmp_path / "data" / "b.raw").rename(tmp_path / "data" / "c.raw")
    raw.put("d.raw", "4")
    raw.run()
    assert raw.numbers() == [1, 2, 3, 4]


@pytest.mark.parametrize("where", ["driver", "cluster"])
def test_a_script_that_raises_is_named_with_its_line_and_commits_nothing(tmp_path, spark, where):
    raw = Raw(tmp_path, f"{{action: scripts/decode.py:process, where: {where}}}")
    raw.script("def process(path, out_dir):\n    (out_dir / 'half.csv').write_text('n')\n    1 / 0\n")
    with pytest.raises(PreprocessError) as error:
        raw.run()
    assert "scripts/decode.py:process on a.raw: line 3: ZeroDivisionError" in error.value.message
    assert error.value.file == "a.raw" and not (tmp_path / "warehouse").exists()
    made = tmp_path / ".lading_cache" / "preprocess" / "numbers"
    assert not [path for path in made.iterdir() if path.is_dir()]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "import os\ndef process(path, out_dir):\n    os.symlink('/etc/passwd', out_dir / 'x.csv')\n",
            "regular file",
        ),
        ("import os\ndef process(path, out_dir):\n    os.symlink('/etc', out_dir / 'x')\n", "regular file"),
        (
            "def process(path, out_dir):\n    (out_dir / '.lading-index.json').touch()\n",
            "reserved for lading",
        ),
        ("def other(path, out_dir): pass\n", "no function 'process'"),
        ("def process(path, out_dir)\n", "line 1: SyntaxError"),
        ("def process(path, out_dir, *, needed): pass\n", "needed"),
    ],
)
def test_a_script_that_makes_what_can_not_be_read_is_refused(tmp_path, text, message):
    raw = Raw(tmp_path, ACTION)
    raw.script(text)
    with pytest.raises(PreprocessError, match=message):
        raw.run()


def test_code_outside_the_project_is_never_run(tmp_path):
    inner = tmp_path / "project"
    inner.mkdir()
    raw = Raw(inner, ACTION)
    (tmp_path / "evil.py").write_text("def process(path, out_dir): pass\n")
    raw.config("{action: ../evil.py:process}")
    with pytest.raises(ConfigError, match="inside the project"):
        load_config(inner)
    (inner / "scripts" / "link.py").symlink_to(tmp_path / "evil.py")
    raw.config("{action: scripts/link.py:process}")
    with pytest.raises(LadingError, match="outside the project"):
        raw.run()


def test_unzip_may_be_spelled_out_and_may_run_in_spark_tasks(tmp_path, spark):
    raw = Raw(tmp_path, "{action: unzip, where: cluster}")
    for name in ("a", "b"):
        zip_of(tmp_path / "data" / f"{name}.raw", {f"{name}.csv": "n\n1\n"}).rename(
            tmp_path / "data" / f"{name}.zip"
        )
    text = (tmp_path / "lading.yaml").read_text().replace("*.raw", "*.zip")
    (tmp_path / "lading.yaml").write_text(text)
    (tmp_path / "data" / "a.raw").unlink(missing_ok=True)
    assert raw.run().spark_started
    assert raw.numbers() == [1, 1]
    assert {entry["action"] for entry in raw.manifest()["preprocessing"].values()} == {"unzip"}
    (tmp_path / "data" / "c.zip").write_bytes(b"not a zip")
    with pytest.raises(LadingError, match=r"c\.zip is damaged"):
        raw.run()
    assert raw.numbers() == [1, 1]


def test_what_nobody_needs_of_a_script_can_be_cleared(tmp_path, spark):
    from lading.sources.archives.cache import clear_cache

    raw = Raw(tmp_path, ACTION)
    raw.run()
    assert clear_cache(load_config(tmp_path)) == []
    (tmp_path / "data" / "a.raw").unlink()
    (removed,) = clear_cache(load_config(tmp_path))
    assert removed.kind == "preprocessed" and removed.made_from == "data/a.raw"
