"""Machines that share nothing: archives and scripts on files in a bucket, made by tasks that read them."""

from __future__ import annotations

import gzip
import io
import json
import tarfile
import tempfile
import uuid
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from support.archives import HOSTILE, zip_with_password
from support.servers import S3Server

import lading
from lading.config.file import load as load_config
from lading.errors import ArchiveRefused, LadingError, PreprocessError, SourceError
from lading.ingest.quarantine import show_aside
from lading.run import RunReport, plan_tables, run
from lading.sources.archives.cache import cache_contents, clear_cache
from lading.sources.objects import Objects
from lading.storage.bucket import ObjectStorage
from lading.storage.ranged import RangedFile
from lading.upkeep.verify import verify
from lading.upkeep.verify_deep import verify_deep
from lading.watch import Watch

CONFIG = """\
s3: {s3}
warehouse: {url}/warehouse
spark: {{in_process_below: {in_process}}}
{head}
tables:
  t:
    root: {url}/raw
    path: "{path}"
    format: csv
{more}
"""


class _Looking(Watch):
    """Sees in every phase that this machine keeps nothing of the archives."""

    def __init__(self, cache: Path) -> None:
        self.cache = cache
        self.phases: list[str] = []

    def phase(self, table: str, name: str) -> None:
        self.phases.append(name)
        for kept in ("archives", "objects", "preprocess"):
            assert not (self.cache / kept).exists(), f"{kept} in {name}"


class Apart:
    """A project with everything in a bucket."""

    def __init__(self, server: S3Server, folder: Path) -> None:
        self.url = f"{server.bucket('apart')}/{uuid.uuid4().hex}"
        self.options = server.options()
        self.folder = folder
        self.raw = ObjectStorage(f"{self.url}/raw", self.options)
        self.config()

    def config(
        self, more: str = "", *, path: str = "**/*.zip", head: str = "", in_process: str = "1GB"
    ) -> None:
        s3 = json.dumps(self.options).replace('"true"', "true")
        text = CONFIG.format(s3=s3, url=self.url, path=path, head=head, more=more, in_process=in_process)
        (self.folder / "lading.yaml").write_text(text)

    def pin(self) -> None:
        (self.folder / "schema").mkdir()
        (self.folder / "schema" / "t.yaml").write_text("columns:\n  - {name: id, type: bigint}\n")

    def zip(self, key: str, members: Mapping[str, str | bytes]) -> None:
        memory = io.BytesIO()
        with zipfile.ZipFile(memory, "w", zipfile.ZIP_DEFLATED) as out:
            for name, data in members.items():
                out.writestr(name, data)
        self.raw.put(key, memory.getvalue())

    def tar(self, key: str, members: Mapping[str, bytes]) -> None:
        memory = io.BytesIO()
        with tarfile.open(fileobj=memory, mode="w:gz") as out:
            for name, data in members.items():
                info = tarfile.TarInfo(name)
                info.size = len(data)
                out.addfile(info, io.BytesIO(data))
        self.raw.put(key, memory.getvalue())

    def run(self, **options: Any) -> RunReport:
        watch = _Looking(self.folder / ".lading_cache")
        report = run(load_config(self.folder), allow_vanish=True, watch=watch, **options)
        if report.error is not None:
            raise report.error
        return report

    def verdicts(self) -> dict[str, int]:
        return {name: count for name, count in self.run().tables[0].verdicts.items() if count}

    def ids(self) -> list[int]:
        with lading.open(f"{self.url}/warehouse/t", s3=self.options, cache=self.folder / "reader") as reader:
            return sorted(reader.scan().to_table()["id"].to_pylist())

    def manifest(self, name: str = "t") -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.folder / "manifest" / f"{name}.json").read_text())
        return found

    def hashes(self) -> dict[str, str]:
        return {key: entry["hash"] for key, entry in self.manifest()["files"].items()}


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where tasks of this process work; nothing of it is left behind."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    yield folder
    assert not [path.name for path in folder.iterdir() if path.is_dir()]


@pytest.fixture
def apart(s3_server: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, temporary: Path) -> Apart:
    """Tasks that see nothing of this machine, as far as lading knows."""
    monkeypatch.setattr("lading.ingest.apart.runs_here", lambda master: False)

    def fetched(self: Objects, found: Any) -> None:
        raise AssertionError(f"{found.key} went through the driver")

    monkeypatch.setattr(Objects, "_fetch", fetched)
    (tmp_path / "project").mkdir()
    return Apart(s3_server, tmp_path / "project")


def test_members_are_read_without_an_extraction(apart: Apart) -> None:
    apart.zip("a.zip", {"x.csv": "id\n1\n2\n", "in/y.csv": "id\n3\n", "empty.csv": ""})
    (plan,) = plan_tables(load_config(apart.folder))
    assert [one.key for one in plan.files] == ["a.zip"] and plan.files[0].verdict == "new"
    assert apart.verdicts() == {"new": 3}
    assert apart.ids() == [1, 2, 3]
    ((key, entry),) = apart.manifest("_global")["extractions"].items()
    assert key == f"archive:{apart.url}/raw/a.zip" and entry["used_by_tables"] == ["t"]
    assert entry["archive_hash"].startswith("etag:") and len(entry["sha256"]) == 64
    (kept,) = (apart.folder / entry["extracted_dir"]).iterdir()
    assert kept.name == ".lading-index.json", "all that stays is what there is"
    assert apart.verdicts() == {"unchanged": 3}
    (plan,) = plan_tables(load_config(apart.folder))
    assert plan.verdicts["unchanged"] == 3 and plan.idle


def test_an_archive_that_changed_and_one_that_is_gone(apart: Apart) -> None:
    apart.zip("a.zip", {"x.csv": "id\n1\n", "y.csv": "id\n2\n", "z.csv": "id\n3\n"})
    apart.zip("b.zip", {"x.csv": "id\n9\n"})
    apart.run()
    apart.zip("a.zip", {"x.csv": "id\n1\n", "y.csv": "id\n20\n"})
    assert apart.verdicts() == {"unchanged": 2, "changed": 1, "vanished": 1}
    assert apart.ids() == [1, 9, 20]
    apart.raw.delete("b.zip")
    assert apart.verdicts() == {"unchanged": 2, "vanished": 1}
    assert apart.ids() == [1, 20]


def test_keys_and_hashes_are_those_of_one_machine(apart: Apart, monkeypatch: pytest.MonkeyPatch) -> None:
    """So a project may go from one machine to a cluster, and back, without reading anything again."""
    apart.zip("sub/a.zip", {"x.csv": "id\n1\n", "in/y.csv": "id\n3\n"})
    apart.tar("b.tar.gz", {"x.csv": b"id\n4\n"})
    apart.config(path="**/*.*")
    apart.run()
    before = apart.hashes()
    monkeypatch.undo()
    report = run(load_config(apart.folder))
    assert report.error is None and report.tables[0].verdicts["unchanged"] == 3
    assert apart.hashes() == before and apart.ids() == [1, 3, 4]
    assert len(list((apart.folder / ".lading_cache" / "archives").rglob("*.csv"))) == 3


def test_a_look_need_not_know_where_tasks_run(apart: Apart, monkeypatch: pytest.MonkeyPatch) -> None:
    """`plan` and `verify` are told neither of a `--spark-master` nor of somebody else's session."""
    apart.zip("a.zip", {"x.csv": "id\n1\n"})
    apart.run()
    monkeypatch.setattr("lading.ingest.apart.runs_here", lambda master: True)
    config = load_config(apart.folder)
    (plan,) = plan_tables(config)
    assert plan.idle and plan.verdicts["unchanged"] == 1
    found, seen = verify(config, "t", watch=_Looking(config.cache))
    assert seen is not None
    verify_deep(seen, found, _no_spark)
    assert found.whole and found.checked["sources read again"] == 1
    monkeypatch.undo()
    report = run(config)
    assert report.error is None and (config.cache / "archives").exists()
    monkeypatch.setattr("lading.ingest.apart.runs_here", lambda master: False)
    (plan,) = plan_tables(config)
    assert plan.idle and plan.verdicts["unchanged"] == 1


def test_an_index_can_be_cleared_once_its_table_is_gone(apart: Apart) -> None:
    apart.zip("a.zip", {"x.csv": "id\n1\n"})
    apart.run()
    config = load_config(apart.folder)
    (kept,) = cache_contents(config)
    assert (kept.kind, kept.needed, kept.tables, kept.files) == ("index", True, ("t",), 0)
    assert clear_cache(config) == []
    other = (apart.folder / "lading.yaml").read_text().replace("  t:\n", "  u:\n")
    (apart.folder / "lading.yaml").write_text(other)
    (removed,) = clear_cache(load_config(apart.folder))
    assert removed.made_from == f"{apart.url}/raw/a.zip" and not removed.path.exists()
    assert apart.manifest("_global")["extractions"] == {}


def test_lost_indexes_and_manifests_are_made_again_and_no_row_is_read(apart: Apart) -> None:
    apart.zip("a.zip", {"x.csv": "id\n1\n"})
    apart.run()
    for lost in (apart.folder / "manifest" / "_global.json", *apart.folder.rglob(".lading-index.json")):
        lost.unlink()
        assert apart.verdicts() == {"unchanged": 1}


def test_compressed_members_tars_and_archives_in_archives(apart: Apart) -> None:
    apart.config(path="*", head="archives: {max_nesting: 2}")
    inner = io.BytesIO()
    with zipfile.ZipFile(inner, "w") as out:
        out.writestr("deep.csv", "id\n4\n")
    apart.tar("t.tar.gz", {"x.csv": b"id\n1\n", "y.csv.gz": gzip.compress(b"id\n2\n")})
    apart.zip("z.zip", {"x.csv": "id\n3\n", "inner.zip": inner.getvalue()})
    apart.run()
    assert apart.ids() == [1, 2, 3, 4]
    assert {key.partition("/")[2] for key in apart.hashes()} == {
        "x.csv", "y.csv.gz", "inner_zip/deep.csv",
    }  # fmt: skip


def test_a_member_that_only_tasks_have_may_be_bad(apart: Apart) -> None:
    apart.config("    on_bad: quarantine")
    apart.pin()
    apart.zip("a.zip", {"x.csv": "id\n1\n", "y.csv": "id\n2\n3,4\n"})
    apart.zip("b.zip", {"x.csv": "other\n2\n"})
    report = apart.run().tables[0]
    assert apart.ids() == [1, 2] and (report.rows_rejected, report.files_rejected) == (1, 1)
    shown = list(show_aside(load_config(apart.folder), "t"))
    assert sorted((row["line"], row["text"]) for row in shown if row["line"]) == [(3, "3,4")]
    apart.zip("b.zip", {"x.csv": "id\n5\n"})
    apart.run()
    assert apart.ids() == [1, 2, 5]


def test_a_member_whose_name_gives_no_columns_is_set_aside(apart: Apart) -> None:
    apart.tar("a.tgz", {"2024.csv": b"id\n1\n", "odd.csv": b"id\n2\n"})
    apart.config("    on_bad: quarantine\n    columns_from_name: '(?P<year>[0-9]{4})[.]csv'", path="*.tgz")
    report = apart.run().tables[0]
    assert report.files_rejected == 1 and apart.ids() == [1]
    assert apart.verdicts() == {"unchanged": 1, "quarantined": 1}


def test_the_schema_follows_members(apart: Apart) -> None:
    apart.config("    drift: evolve")
    apart.zip("a.zip", {"x.csv": "id\n1\n", "y.csv": "id\n2\n"})
    apart.run()
    apart.zip("b.zip", {"x.csv": "id,name\n3,Ada\n"})
    apart.run()
    assert apart.ids() == [1, 2, 3] and "name" in (apart.folder / "schema" / "t.yaml").read_text()


@pytest.mark.parametrize("case", HOSTILE)
def test_a_hostile_archive_is_refused_in_its_task(apart: Apart, case: str) -> None:
    name, data, member, word = HOSTILE[case]
    apart.config(
        "    inside: '*.csv'", path="x.*", head="archives: {max_members: 20, max_bytes: 100MB}"
        if case not in ("bytes",) else "archives: {max_bytes: 200000}",
    )  # fmt: skip
    apart.raw.put(name, data())
    with pytest.raises(ArchiveRefused) as error:
        apart.run()
    assert word in error.value.message and name in error.value.message
    assert repr(member) in error.value.message or member in error.value.message


def test_a_refused_archive_is_set_aside_until_it_changes(apart: Apart) -> None:
    apart.config("    on_bad: quarantine")
    apart.zip("good.zip", {"x.csv": "id\n1\n"})
    apart.raw.put("bad.zip", HOSTILE["zip slip"][1]())
    report = apart.run().tables[0]
    assert report.files_rejected == 1 and apart.ids() == [1]
    entry = apart.manifest()["preprocessing"]["bad.zip"]
    assert "'..'" in entry["error"] and len(entry["sha256"]) == 64
    report = apart.run().tables[0]
    assert report.files_rejected == 0 and report.verdicts["quarantined"] == 1, "it is not opened again"
    apart.zip("bad.zip", {"x.csv": "id\n2\n"})
    apart.run()
    assert apart.ids() == [1, 2]


def test_a_password_travels_with_the_function_alone(apart: Apart, tmp_path: Path) -> None:
    packed = zip_with_password(tmp_path / "p.zip", "x.csv", b"id\n1\n", b"sentinel-pass")
    apart.raw.put("p.zip", packed.read_bytes())
    apart.config("    password_file: secret")
    (apart.folder / "secret").write_text("wrong\n")
    with pytest.raises(ArchiveRefused, match="the password is wrong"):
        apart.run()
    (apart.folder / "secret").write_text("sentinel-pass\n")
    apart.run()
    assert apart.ids() == [1]
    kept = [path for path in apart.folder.rglob("*") if path.is_file() and path.name != "secret"]
    assert not [path for path in kept if b"sentinel-pass" in path.read_bytes()]


def test_what_travels_shows_no_password(
    apart: Apart, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from lading.ingest.tasks import execute

    packed = zip_with_password(tmp_path / "p.zip", "x.csv", b"id\n1\n", b"sentinel-pass")
    apart.raw.put("p.zip", packed.read_bytes())
    apart.config("    password_file: secret")
    (apart.folder / "secret").write_text("sentinel-pass")
    seen = []
    real = execute.read_and_write

    def shown(ingest: Any, number: int) -> Any:
        seen.extend([repr(ingest), repr([one.file.made for one in ingest.tasks[number].pieces])])
        return real(ingest, number)

    monkeypatch.setattr(execute, "read_and_write", shown)
    apart.run()
    assert len(seen) == 2 and not [text for text in seen if "sentinel" in text]


def test_an_archive_that_changes_between_looking_and_reading_commits_nothing(
    apart: Apart, monkeypatch: pytest.MonkeyPatch
) -> None:
    from lading.ingest.tasks import execute

    apart.zip("a.zip", {"x.csv": "id\n1\n"})
    apart.run()
    apart.zip("a.zip", {"x.csv": "id\n2\n"})
    real = execute.read_and_write

    def late(ingest: Any, number: int) -> Any:
        apart.zip("a.zip", {"x.csv": "id\n3\n"})
        return real(ingest, number)

    with monkeypatch.context() as patch:
        patch.setattr(execute, "read_and_write", late)
        with pytest.raises(LadingError, match="changed while it was being read"):
            apart.run()
    assert apart.ids() == [1]
    apart.run()
    assert apart.ids() == [3]


def test_a_task_fetches_only_the_members_that_it_reads(apart: Apart, monkeypatch: pytest.MonkeyPatch) -> None:
    import random

    noise = random.Random(1).randbytes(4_000_000).hex()
    apart.config("    inside: '*.csv'")
    apart.zip("a.zip", {"1.bin": noise, "x.csv": "id\n1\n", "2.bin": noise})
    apart.pin()
    apart.run()
    read = []
    real = RangedFile.read

    def counted(self: RangedFile, size: int | None = -1) -> bytes:
        read.append(len(data := real(self, size)))
        return data

    monkeypatch.setattr(RangedFile, "read", counted)
    apart.run(full=True)
    assert apart.ids() == [1] and 0 < sum(read) < 4_000_000


def test_verify_reads_the_members_again(apart: Apart) -> None:
    apart.zip("a.zip", {"x.csv": "id\n1\n"})
    apart.tar("b.zip.tgz", {"x.csv": b"id\n2\n"})
    apart.config(path="*")
    apart.run()
    config = load_config(apart.folder)
    found, seen = verify(config, "t", watch=_Looking(config.cache))
    assert seen is not None
    verify_deep(seen, found, _no_spark)
    assert found.whole and found.checked["sources read"] == found.checked["sources read again"] == 2


def _no_spark() -> Any:
    raise AssertionError("there is little to read")


SCRIPT = """\
import pathlib


def process(path, out_dir, *, shift=0):
    files = sorted(path.rglob("*.raw")) if path.is_dir() else [path]
    numbers = [int(n) + shift for file in files for n in file.read_text().split()]
    (out_dir / "n.csv").write_text("id\\n" + "".join(f"{{n}}\\n" for n in numbers))
    with open({calls!r}, "a") as calls:
        calls.write("called ")
"""
CLUSTER = "    preprocess: {action: scripts/s.py:process, where: cluster, %s}"


@pytest.fixture
def scripted(apart: Apart, tmp_path: Path) -> Apart:
    (apart.folder / "scripts").mkdir()
    (apart.folder / "scripts" / "s.py").write_text(SCRIPT.format(calls=str(tmp_path / "calls")))
    apart.raw.put("a.raw", b"1 2")
    apart.raw.put("b.raw", b"3")
    apart.config(CLUSTER % "options: {shift: 10}", path="*.raw")
    apart.pin()
    return apart


def _calls(tmp_path: Path) -> int:
    path = tmp_path / "calls"
    found = len(path.read_text().split()) if path.exists() else 0
    path.unlink(missing_ok=True)
    return found


def test_a_script_runs_where_its_output_is_read(
    scripted: Apart, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert scripted.verdicts() == {"new": 2}
    assert scripted.ids() == [11, 12, 13] and _calls(tmp_path) == 4, "once to look, once to read"
    assert scripted.verdicts() == {"unchanged": 2} and _calls(tmp_path) == 0
    with monkeypatch.context() as patch:
        patch.setattr("lading.ingest.apart.runs_here", lambda master: True)
        (plan,) = plan_tables(load_config(scripted.folder))
        assert plan.verdicts["unchanged"] == 2
    scripted.raw.put("b.raw", b"4")
    scripted.run()
    assert scripted.ids() == [11, 12, 14] and _calls(tmp_path) == 2
    scripted.config(CLUSTER % "options: {shift: 20}", path="*.raw")
    scripted.run()
    assert scripted.ids() == [21, 22, 24]


def test_a_script_for_all_files_at_once(scripted: Apart, tmp_path: Path) -> None:
    scripted.config(CLUSTER % "scope: global", path="*.raw")
    assert scripted.verdicts() == {"new": 1}
    assert scripted.ids() == [1, 2, 3] and _calls(tmp_path) == 2
    scripted.raw.delete("a.raw")
    scripted.run()
    assert scripted.ids() == [3]


def test_a_script_that_fails_names_its_file_and_line(scripted: Apart) -> None:
    scripted.raw.put("b.raw", b"three")
    with pytest.raises(PreprocessError, match=r"scripts/s.py:process on b.raw: line 6: ValueError"):
        scripted.run()


def test_a_script_that_never_writes_the_same_is_found_out(scripted: Apart) -> None:
    (scripted.folder / "scripts" / "s.py").write_text(
        "import itertools, time\ndef process(path, out_dir):\n"
        "    (out_dir / 'n.csv').write_text(f'id\\n{time.time_ns()}\\n')\n"
    )
    scripted.config(CLUSTER % "scope: per_file", path="*.raw")
    with pytest.raises(SourceError, match="is not what it was at first") as error:
        scripted.run()
    assert "the same for the same input" in error.value.hint


def test_the_same_on_spark(apart: Apart, tmp_path: Path, spark: Any) -> None:
    """First run, change, refusal and script, in Spark's own workers."""
    (apart.folder / "scripts").mkdir()
    (apart.folder / "scripts" / "s.py").write_text(SCRIPT.format(calls=str(tmp_path / "calls")))
    apart.config("    on_bad: quarantine", path="*.*z*", in_process="0")
    apart.zip("a.zip", {"x.csv": "id\n1\n", "y.csv": "id\n2\n"})
    apart.tar("b.tgz", {"x.csv": b"id\n3\n", "y.csv": b"id\n4\n"})
    apart.raw.put("c.zip", HOSTILE["zip slip"][1]())
    assert apart.run().spark_started and apart.ids() == [1, 2, 3, 4]
    assert not apart.run().spark_started
    apart.zip("a.zip", {"x.csv": "id\n10\n"})
    apart.run()
    assert apart.ids() == [3, 4, 10]
    local = Path(spark.conf.get("spark.local.dir"))
    assert local.is_dir() and not list(local.rglob("lading-*")), "workers leave nothing behind"
    config = load_config(apart.folder)
    watch = _Looking(config.cache)
    found, seen = verify(config, "t", watch=watch)
    assert seen is not None
    verify_deep(seen, found, lambda: spark)
    assert found.whole and found.checked["sources read"] == 3, found.findings
