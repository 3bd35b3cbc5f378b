"""Tables made of tables with their warehouse in a bucket, and an input that is named by its URL."""

from __future__ import annotations

import json
from typing import Any

from support.chains import by_duckdb

import lading
from lading.config.file import load
from lading.ingest.derived import evaluate
from lading.run import run

CONFIG = """\
warehouse: {url}
s3: {s3}
spark: {{in_process_below: 1GB}}
tables:
  voyages: {{root: data, path: "v*.csv", format: csv}}
  tonnage:
    from: {{voyages: {{by: port}}}}
    sql: "select port, cast(sum(tonnes) as bigint) as tonnes from voyages group by port"
"""
ELSEWHERE = """\
warehouse: warehouse
s3: {s3}
tables:
  top:
    from: {{tonnage: {{path: "{url}/tonnage"}}}}
    sql: "select cast(sum(tonnes) as bigint) as tonnes from tonnage"
"""


def test_a_table_in_a_bucket_is_made_of_tables_in_a_bucket(tmp_path, url, s3_server, monkeypatch):
    monkeypatch.setattr(evaluate, "through_spark", by_duckdb)
    options = s3_server.options()
    s3 = json.dumps(options)
    here, there = tmp_path / "here", tmp_path / "there"
    (here / "data").mkdir(parents=True)
    there.mkdir()
    (here / "lading.yaml").write_text(CONFIG.format(url=url, s3=s3))
    (there / "lading.yaml").write_text(ELSEWHERE.format(url=url, s3=s3))
    (here / "data" / "v1.csv").write_text("port,tonnes\nhh,1\nro,2\n")

    def done() -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        for project in (here, there):
            report = run(load(project))
            assert report.error is None, report.error
        tables = lading.open_all(url, ["voyages", "tonnage"], s3=options, cache=tmp_path / "cache")
        rows = tables["tonnage"].scan(columns=["port", "tonnes"]).to_table().sort_by("port").to_pylist()
        return rows, lading.open(there / "warehouse" / "top").scan(columns=["tonnes"]).to_table().to_pylist()

    assert done() == ([{"port": "hh", "tonnes": 1}, {"port": "ro", "tonnes": 2}], [{"tonnes": 3}])
    (here / "data" / "v2.csv").write_text("port,tonnes\nhh,4\n")
    assert done() == ([{"port": "hh", "tonnes": 5}, {"port": "ro", "tonnes": 2}], [{"tonnes": 7}])
