"""Archives from the command line: bad ones are refused by name, good ones looked at and steered."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from support.archives import HOSTILE, ROW, aged, tar_of, zip_of, zip_with_password

import lading
from lading.cli.main import invoke

CONFIG = """\
archives: {max_members: 20, max_bytes: 15MB}
tables:
  people:
    root: data
    path: "*"
    inside: "**/*.csv"
    format: csv
"""


def call(project: Path, capfd, *args: str) -> tuple[int, dict]:
    capfd.readouterr()
    code = invoke(["-C", str(project), *args, "--json"])
    return code, json.loads(capfd.readouterr().out.strip().splitlines()[-1])


@pytest.fixture
def project(tmp_path) -> Path:
    (tmp_path / "data").mkdir()
    (tmp_path / "lading.yaml").write_text(CONFIG)
    return tmp_path


@pytest.mark.parametrize("case", HOSTILE)
def test_a_run_refuses_a_bad_archive_and_leaves_nothing_behind(project, capfd, case):
    name, make, member, word = HOSTILE[case]
    zip_of(project / "data" / "good.zip", {"a.csv": ROW})
    (project / "data" / name).write_bytes(make())
    if case == "bytes":
        (project / "lading.yaml").write_text(CONFIG.replace("15MB", "200_000"))
    before = {path.name for path in project.iterdir()}
    code, answer = call(project, capfd, "run")
    assert code == 1
    (table,) = answer["tables"]
    error = table["error"]
    assert error["kind"] == "ArchiveRefused" and error["file"] == name and word in error["message"]
    assert member == name or repr(member) in error["message"]
    assert {path.name for path in project.iterdir()} - before <= {".lading_cache", "manifest", "logs"}
    made = [path.name for path in (project / ".lading_cache" / "archives").iterdir() if path.is_dir()]
    assert made in ([], [next((n for n in made if n.startswith("good_zip_")), None)])
    assert not (project / "warehouse").exists() and not list(project.rglob("evil*"))


def test_a_file_that_is_no_archive_is_refused_where_only_archives_are_meant(project, capfd):
    (project / "data" / "x.csv").write_text("id\n1\n")
    code, answer = call(project, capfd, "run")
    assert code == 1 and "x.csv is not an archive" in answer["tables"][0]["error"]["message"]


def test_every_kind_of_archive_becomes_rows(project, spark, capfd):
    import gzip

    zip_of(project / "data" / "a.zip", {"x/a.csv": "id,name\n1,zip\n", "readme.txt": "no"})
    tar_of(project / "data" / "b.tar", {"./b.csv": b"id,name\n2,tar\n"})
    tar_of(project / "data" / "c.tar.gz", {"c.csv": b"id,name\n3,targz\n"})
    tar_of(project / "data" / "d.tgz", {"d.csv": b"name,id\ntgz,4\n"})
    (project / "data" / "e.csv.gz").write_bytes(gzip.compress(b"id,name\n5,gz\n"))
    aged(project / "data" / "e.csv.gz")
    zip_with_password(project / "data" / "f.zip", "f.csv", b"id,name\n6,crypt\n", b"s3cret")
    (project / "password").write_text("s3cret\n")
    text = CONFIG.replace("    format: csv\n", "    format: csv\n    password_file: password\n")
    (project / "lading.yaml").write_text(text)
    code, answer = call(project, capfd, "run")
    assert code == 0, answer
    with lading.open(project / "warehouse" / "people") as reader:
        rows = {row["id"]: row["name"] for row in reader.scan().to_table().to_pylist()}
    assert rows == {1: "zip", 2: "tar", 3: "targz", 4: "tgz", 5: "gz", 6: "crypt"}
    everything = "".join(p.read_text(errors="replace") for p in (project / "manifest").iterdir())
    assert "s3cret" not in everything


def test_archives_and_plain_files_may_be_mixed_without_inside(project, spark, capfd):
    (project / "lading.yaml").write_text("tables:\n  people: {root: data, path: '*', format: csv}\n")
    zip_of(project / "data" / "a.zip", {"a.csv": "id,name\n1,zip\n"})
    aged_file = project / "data" / "b.csv"
    aged_file.write_text("id,name\n2,plain\n")
    aged(aged_file)
    assert call(project, capfd, "run")[0] == 0
    with lading.open(project / "warehouse" / "people") as reader:
        assert {row["name"] for row in reader.scan().to_table().to_pylist()} == {"zip", "plain"}
        assert {source.archive for source in reader.sources()} == {None, "a.zip"}


def test_manifests_are_shown_queried_and_reset(project, spark, capfd):
    zip_of(project / "data" / "a.zip", {"a.csv": ROW, "b.csv": ROW})
    zip_of(project / "data" / "c.zip", {"c.csv": ROW})
    assert call(project, capfd, "run")[0] == 0
    _, shown = call(project, capfd, "manifest", "show")
    (table,) = shown["tables"]
    keys = [entry["key"] for entry in table["files"]]
    assert len(keys) == 3 and list(table["preprocessing"]) == ["a.zip", "c.zip"]
    assert len(shown["extractions"]) == 2
    assert call(project, capfd, "manifest", "query", "--status", "failed")[1] == {"entries": []}
    _, found = call(project, capfd, "manifest", "query", "--status", "success")
    assert [entry["key"] for entry in found["entries"]] == keys
    assert invoke(["-C", str(project), "manifest", "show"]) == 0
    assert invoke(["-C", str(project), "manifest", "query", "--status", "failed"]) == 0

    def reads() -> list[str]:
        _, plan = call(project, capfd, "plan")
        return [one["key"] for one in plan["tables"][0]["files"] if one["verdict"] in ("changed", "reread")]

    assert reads() == []
    _, answer = call(project, capfd, "explain", str(project / "data" / "a.zip"))
    (explained,) = answer["tables"]
    assert (explained["verdict"], explained["reason"]) == ("unchanged", "2 files from it: 2 unchanged")
    _, answer = call(project, capfd, "explain", keys[0])
    assert answer["tables"][0]["key"] == keys[0]
    assert call(project, capfd, "manifest", "reset", "people", "--file", keys[0])[1]["forgotten"] == [keys[0]]
    assert reads() == [keys[0]]
    assert call(project, capfd, "manifest", "reset", "people", "--file", "a.zip")[1]["forgotten"] == [keys[1]]
    assert call(project, capfd, "run")[0] == 0 and reads() == []
    with lading.open(project / "warehouse" / "people") as reader:
        assert reader.rows == 3, "what is read again replaces what was there"
    code, answer = call(project, capfd, "manifest", "reset", "people", "--file", "nothing")
    assert code == 1 and answer["error"]["kind"] == "NotFound"
    assert len(call(project, capfd, "manifest", "reset", "people")[1]["forgotten"]) == 3
    assert not (project / "manifest" / "people.json").exists() and reads() == keys


def test_a_file_that_failed_is_found_by_its_status(project, spark, capfd):
    zip_of(project / "data" / "a.zip", {"a.csv": ROW, "bad.csv": "id,name\n1,Ada,more\n"})
    (project / "schema").mkdir()
    schema = "columns:\n  - {name: id, type: bigint}\n  - {name: name, type: string}\n"
    (project / "schema" / "people.yaml").write_text(schema)
    assert call(project, capfd, "run")[0] == 1
    (entry,) = call(project, capfd, "manifest", "query", "--status", "failed")[1]["entries"]
    assert entry["key"].endswith("/bad.csv") and entry["archive"] == "a.zip" and entry["error"]


def test_clearing_the_cache_never_takes_what_a_table_needs(project, spark, capfd):
    for name in ("a", "b", "c"):
        zip_of(project / "data" / f"{name}.zip", {f"{name}.csv": ROW})
    assert call(project, capfd, "run")[0] == 0
    archives = project / ".lading_cache" / "archives"
    (project / "data" / "a.zip").unlink()
    (archives / ".b_zip_killed.123.tmp").mkdir()
    (archives / ".b_zip_killed.123.tmp" / "half.csv").write_text("half")
    (project / ".lading_cache" / "other").mkdir()
    _, status = call(project, capfd, "cache", "status")
    needed = {Path(one["path"]).name[:5]: one["needed"] for one in status["contents"]}
    assert needed == {"a_zip": False, "b_zip": True, "c_zip": True, ".b_zi": False}
    assert invoke(["-C", str(project), "cache", "status"]) == 0
    _, cleared = call(project, capfd, "cache", "clear")
    assert sorted(one["kind"] for one in cleared["removed"]) == ["extraction", "leftover"]
    left = sorted(path.name[:5] for path in archives.iterdir() if path.is_dir())
    assert left == ["b_zip", "c_zip"] and (project / ".lading_cache" / "other").is_dir()
    extractions = json.loads((project / "manifest" / "_global.json").read_text())["extractions"]
    assert [key[-5:] for key in extractions] == ["b.zip", "c.zip"]
    assert call(project, capfd, "cache", "clear")[1] == {"removed": [], "bytes": 0}
    assert call(project, capfd, "run")[0] == 0


def test_clearing_the_cache_keeps_everything_of_a_table_whose_root_is_away(project, spark, capfd):
    zip_of(project / "data" / "a.zip", {"a.csv": ROW})
    assert call(project, capfd, "run")[0] == 0
    shutil.move(project / "data", project / "unmounted")
    assert call(project, capfd, "cache", "clear")[1]["removed"] == []


CHILD = """
import os, signal, sys
from pathlib import Path
import lading.sources.archives.extract as extract
from lading.config.file import load as load_config
from lading.run import run

real = extract.Extraction.file
def file(self, name, *args, **kwargs):
    if name == "b.csv":
        os.kill(os.getpid(), signal.SIGKILL)
    return real(self, name, *args, **kwargs)
extract.Extraction.file = file
run(load_config(Path(sys.argv[1])))
"""


def test_a_kill_during_extraction_is_never_taken_for_the_whole(project, spark, capfd):
    zip_of(project / "data" / "a.zip", {"a.csv": ROW, "b.csv": ROW})
    child = subprocess.run([sys.executable, "-c", CHILD, str(project)], capture_output=True, timeout=120)
    assert child.returncode == -signal.SIGKILL, child.stderr.decode()[-2000:]
    archives = project / ".lading_cache" / "archives"
    assert [name for name in os.listdir(archives) if name.endswith(".tmp")], "the half is there"
    assert not (project / "manifest" / "_global.json").exists()
    assert call(project, capfd, "run")[0] == 0
    with lading.open(project / "warehouse" / "people") as reader:
        assert reader.rows == 2
    assert not [name for name in os.listdir(archives) if name.startswith(".")]


def test_under_quarantine_a_bad_archive_is_set_aside_and_the_others_load(project, spark, capfd):
    text = CONFIG.replace("    format: csv\n", "    format: csv\n    on_bad: quarantine\n")
    (project / "lading.yaml").write_text(text)
    zip_of(project / "data" / "a.zip", {"a.csv": ROW})
    zip_of(project / "data" / "b.zip", {"b.csv": ROW})
    bad = zip_of(project / "data" / "c.zip", {"../c.csv": ROW})
    code, answer = call(project, capfd, "run")
    assert code == 0 and "error" not in answer["tables"][0]
    assert answer["tables"][0]["verdicts"]["quarantined"] == 1
    with lading.open(project / "warehouse" / "people") as reader:
        assert reader.rows == 2
    entry = json.loads((project / "manifest" / "people.json").read_text())["preprocessing"]["c.zip"]
    assert "'../c.csv'" in entry["error"] and entry["file_hash"]
    assert bad.exists()
    code, answer = call(project, capfd, "plan")
    assert code == 0, "it is known, and nothing is to do"
    (aside,) = [one for one in answer["tables"][0]["files"] if one["verdict"] == "quarantined"]
    assert aside["key"] == "c.zip" and "'../c.csv'" in aside["reason"]
    assert "'../c.csv'" in listed(project, capfd)["c.zip"]
    (row,) = call(project, capfd, "quarantine", "show", "people", "--file", "c.zip")[1]["rows"]
    assert row["file"] == "c.zip" and "'../c.csv'" in row["reason"]
    (table,) = call(project, capfd, "quarantine", "replay", "people", "--file", "c.zip")[1]["tables"]
    assert (table["files_rejected"], table["verdicts"]["unchanged"]) == (1, 2), "tried again, only it"
    code, answer = call(project, capfd, "quarantine", "drop", "people", "--file", "c.zip")
    assert code == 1 and "was refused as a whole" in answer["error"]["message"]
    code, answer = call(project, capfd, "quarantine", "replay", "people", "--file", "d.zip")
    assert code == 1 and "c.zip" in answer["tables"][0]["error"]["hint"]
    zip_of(project / "data" / "c.zip", {"c.csv": ROW}, age=50)
    assert call(project, capfd, "run")[1]["tables"][0]["verdicts"]["quarantined"] == 0
    with lading.open(project / "warehouse" / "people") as reader:
        assert reader.rows == 3
    assert listed(project, capfd) == {}


def listed(project: Path, capfd) -> dict[str, str]:
    rows = call(project, capfd, "quarantine", "list")[1]["quarantine"]
    return {row["file"]: row["reason"] for row in rows if row["whole"]}


def test_a_table_of_nothing_but_bad_archives_says_so_and_max_bad_stops_it(project, capfd):
    text = CONFIG.replace("    format: csv\n", "    format: csv\n    on_bad: quarantine\n    max_bad: 0\n")
    (project / "lading.yaml").write_text(text)
    zip_of(project / "data" / "a.zip", {"../a.csv": ROW})
    for _ in range(2):  # a run that failed has settled nothing: the next one counts again
        code, answer = call(project, capfd, "run")
        assert code == 1 and "1 whole file (a.zip: " in answer["tables"][0]["error"]["message"]
    assert listed(project, capfd) == {}
    (project / "lading.yaml").write_text(text.replace("max_bad: 0", "max_bad: 1"))
    code, answer = call(project, capfd, "run")
    assert code == 0 and answer["tables"][0]["files_rejected"] == 1
    assert "'../a.csv'" in listed(project, capfd)["a.zip"]
    code, answer = call(project, capfd, "run")
    assert code == 0 and answer["tables"][0]["files_rejected"] == 0, "it is known"
