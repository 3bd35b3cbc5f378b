"""What a run built is what a reader gets: every key, after every change, with two reads to open it."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from support.handmade import touched
from support.served import ServedProject

import lading
from lading.cli.main import invoke


@pytest.mark.acceptance("M20")
def test_a_reader_gets_what_a_run_built(
    tmp_path: Path, spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    project = ServedProject(tmp_path / "p")
    project.put("a.csv", [(n, n % 28 + 1, f"ship {n}") for n in range(100)])
    project.put("b.csv", [(n, n % 20 + 3, f'other "{n}"') for n in range(50, 150)])
    project.run()
    with touched(project.table) as seen, lading.open(project.table) as reader:
        ref = reader.snapshot.ref
        assert list(dict.fromkeys(seen)) == ["open _CURRENT", f"open {ref}"]
        seen.clear()
        assert reader.multi_get(range(200)) == dict.fromkeys(range(200)) | project.latest()
        assert {key: reader.get(key) for key in range(150)} == project.latest()
        assert set(seen) == {f"open {shard.db_url}/shard.db" for shard in reader.shards()}
        assert reader.get(7, decode=True) == json.loads(project.latest()[7])
        assert reader.health(deep=True)["status"] == "ok"

        key = next(n for n in range(150) if reader.route(n) == 2)
        before = project.latest()
        project.put("c.csv", [(key, 28, "changed")])
        project.run()
        assert reader.multi_get(range(150)) == before
        seen.clear()
        assert reader.refresh()
        assert reader.multi_get(range(150)) == project.latest() != before
        reopened = {one for one in seen if one.endswith("shard.db")}
        assert reopened == {f"open {project.urls()[2]}/shard.db"}

    async def ask() -> object:
        async with await lading.open_async(project.table) as other:
            return await other.get(key)

    assert asyncio.run(ask()) == project.latest()[key]
    assert invoke(["-C", str(project.folder), "get", "ships", str(key), "--offset", "1"]) == 0
    assert json.loads(capsys.readouterr().out) == json.loads(before[key])
