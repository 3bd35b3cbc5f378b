"""Events as OpenLineage's own library understands them; none of them can fail a run."""

import http.server
import json
import threading
from importlib import import_module
from typing import Any

import attr
import pytest
from support.watched import CONFIG, WatchedProject

from lading.cli.main import invoke
from lading.config.file import load as load_config
from lading.errors import ConfigError

# Facet -> where openlineage-python has its class, generated from the published schema.
CLASSES = {
    "schema": ("schema_dataset", "SchemaDatasetFacet"),
    "columnLineage": ("column_lineage_dataset", "ColumnLineageDatasetFacet"),
    "dataQualityAssertions": ("data_quality_assertions_dataset", "DataQualityAssertionsDatasetFacet"),
    "outputStatistics": ("output_statistics_output_dataset", "OutputStatisticsOutputDatasetFacet"),
    "errorMessage": ("error_message_run", "ErrorMessageRunFacet"),
    "processing_engine": ("processing_engine_run", "ProcessingEngineRunFacet"),
}


@pytest.fixture
def project(tmp_path):
    config = CONFIG.replace("order_by: id}\n  b:", "order_by: id, checks: [{not_null: note}]}\n  b:")
    project = WatchedProject(
        tmp_path / "project", "openlineage: {file: lineage.jsonl, namespace: port}\n" + config
    )
    project.put("data/one.csv", (1, "x"), (2, "y"))
    return project


def lineage(project: WatchedProject) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (project.folder / "lineage.jsonl").read_text().splitlines()]


def check_facets(facets: dict[str, Any]) -> set[str]:
    """Every facet can be what its generated class says, field by field, and names its schema."""
    for name, facet in facets.items():
        module, kind = CLASSES[name]
        cls = getattr(import_module(f"openlineage.client.generated.{module}"), kind)
        fields = {key: value for key, value in facet.items() if not key.startswith("_")}
        assert facet["_schemaURL"] == cls._get_schema() and facet["_producer"].startswith("https://")
        cls(**fields)
        known = {one.name for one in attr.fields(cls)}
        assert set(fields) <= known
    return set(facets)


def check_event(event: dict[str, Any]) -> None:
    base = import_module("openlineage.client.generated.base")
    assert event["schemaURL"] == base.RunEvent._get_schema()
    run = base.Run(runId=event["run"]["runId"])
    job = base.Job(**{key: event["job"][key] for key in ("namespace", "name")})
    inputs = [base.InputDataset(namespace=one["namespace"], name=one["name"]) for one in event["inputs"]]
    outputs = [base.OutputDataset(namespace=one["namespace"], name=one["name"]) for one in event["outputs"]]
    base.RunEvent(
        eventTime=event["eventTime"], producer=event["producer"], run=run, job=job,
        eventType=base.EventType(event["eventType"]) if hasattr(base, "EventType") else event["eventType"],
        inputs=inputs, outputs=outputs,
    )  # fmt: skip
    check_facets(event["run"]["facets"])


def test_a_run_is_two_events_that_openlineage_understands(project):
    assert invoke(["-C", str(project.folder), "run", "a", "--json"]) == 0
    start, complete = lineage(project)
    for event in (start, complete):
        check_event(event)
    assert (start["eventType"], complete["eventType"]) == ("START", "COMPLETE")
    assert start["run"]["runId"] == complete["run"]["runId"] and start["eventTime"] < complete["eventTime"]
    assert complete["job"]["namespace"] == "port" and complete["job"]["name"] == "a"
    (source,), (target,) = complete["inputs"], complete["outputs"]
    assert source["name"].endswith("/data/**/*.csv") and source["namespace"] == "file"
    assert check_facets(source["inputFacets"]) == {"dataQualityAssertions"}
    (assertion,) = source["inputFacets"]["dataQualityAssertions"]["assertions"]
    assert assertion["success"] is True
    assert target["name"].endswith("/warehouse/a")
    assert check_facets(target["facets"]) == {"schema", "columnLineage"}
    assert target["facets"]["schema"]["fields"][0] == {"name": "id", "type": "bigint"}
    (field,) = target["facets"]["columnLineage"]["fields"]["note"]["inputFields"]
    assert (field["name"], field["field"]) == (source["name"], "note")
    assert check_facets(target["outputFacets"]) == {"outputStatistics"}
    assert target["outputFacets"]["outputStatistics"]["rowCount"] == 2


def test_a_run_with_nothing_to_do_is_no_event(project):
    assert invoke(["-C", str(project.folder), "run", "a", "--json"]) == 0
    assert invoke(["-C", str(project.folder), "run", "a", "--json"]) == 0
    assert len(lineage(project)) == 2


def test_a_failure_says_why(project):
    (project.folder / "data" / "bad.csv").write_text("id,note\nnot a number,x\n")
    assert invoke(["-C", str(project.folder), "run", "a", "--json"]) == 1
    _, failed = lineage(project)
    check_event(failed)
    assert failed["eventType"] == "FAIL"
    assert "bad.csv" in failed["run"]["facets"]["errorMessage"]["message"]


def test_events_go_to_a_url_with_its_key(project):
    got: list[tuple[str, Any, str | None]] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            got.append((self.path, json.loads(body), self.headers["Authorization"]))
            self.send_response(201)
            self.end_headers()

        def log_message(self, *args):
            pass

    server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_address[1]}/api/v1/lineage"
    (project.folder / "lading.yaml").write_text(f"openlineage: {{url: '{url}', api_key: k123}}\n" + CONFIG)
    assert invoke(["-C", str(project.folder), "run", "a", "--json"]) == 0
    server.shutdown()
    server.server_close()
    assert [(path, event["eventType"], key) for path, event, key in got] == [
        ("/api/v1/lineage", "START", "Bearer k123"),
        ("/api/v1/lineage", "COMPLETE", "Bearer k123"),
    ]
    assert got[0][1]["job"]["namespace"] == "project"


def test_a_url_that_nobody_answers_fails_no_run(project, capsys):
    config = "openlineage: {url: 'http://127.0.0.1:1/lineage'}\n" + CONFIG
    (project.folder / "lading.yaml").write_text(config)
    assert invoke(["-C", str(project.folder), "run", "--json"]) == 0
    assert capsys.readouterr().err.count("OpenLineage events can't be delivered") == 1


@pytest.mark.parametrize("given", ["{}", "{url: 'ftp://x/y'}", "{url: 'http://'}", "{file: 3}", "{flie: x}"])
def test_a_wrong_section_is_told_with_its_line(project, given):
    (project.folder / "lading.yaml").write_text(f"openlineage: {given}\n" + CONFIG)
    with pytest.raises(ConfigError, match=r"lading.yaml:1: openlineage"):
        load_config(project.folder)
