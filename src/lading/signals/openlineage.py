"""OpenLineage events: which files went into which table, by whom, with what columns, checks and counts.

Each run of a table that did something is two events, START and COMPLETE or FAIL, in OpenLineage's own JSON
(spec 2-0-2). They go to a file, a line each, or to a URL. Nothing here can fail a run: what can't be sent
is said once, and forgotten.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from lading import clock
from lading.config.project import Config, TableConfig
from lading.config.signals import OpenLineage
from lading.errors import LadingError
from lading.model import CheckResult
from lading.run import RunReport, TableReport
from lading.secrets import bare, hide, hide_within
from lading.sources.names import name_columns
from lading.sources.schema import load_schema

PRODUCER = "https://pypi.org/project/lading/"
_SPEC = "https://openlineage.io/spec"
_EVENT = f"{_SPEC}/2-0-2/OpenLineage.json#/$defs/RunEvent"
_FACETS = {
    "schema": "1-2-0/SchemaDatasetFacet",
    "columnLineage": "1-2-0/ColumnLineageDatasetFacet",
    "dataQualityAssertions": "1-1-0/DataQualityAssertionsDatasetFacet",
    "outputStatistics": "1-0-2/OutputStatisticsOutputDatasetFacet",
    "errorMessage": "1-0-1/ErrorMessageRunFacet",
    "processing_engine": "1-1-1/ProcessingEngineRunFacet",
}
_AT_REST = ("unchanged", "quarantined", "touched")
_TIMEOUT = 10.0  # seconds

Json = dict[str, Any]


def run_events(config: Config, report: RunReport, now: datetime | None = None) -> list[Json]:
    """START and COMPLETE or FAIL for each table that the run did something to."""
    at = now or clock.now()
    worked = [table for table in report.tables if _worked(table)]
    return [event for table in worked for event in _events(config, report, table, at)]


def _worked(table: TableReport) -> bool:
    moved = any(n for verdict, n in table.verdicts.items() if verdict not in _AT_REST)
    return table.error is not None or table.published or moved


def _events(config: Config, report: RunReport, table: TableReport, at: datetime) -> tuple[Json, Json]:
    assert config.openlineage is not None
    namespace, cfg = config.openlineage.namespace, config.table(table.table)
    sources = input_datasets(config, cfg)
    target = _table_dataset(config, table.table)
    number = str(uuid.uuid5(uuid.NAMESPACE_URL, f"lading:{namespace}/{table.table}/{report.run_id}"))
    job = {"namespace": namespace, "name": table.table, "facets": {}}
    begun = at - timedelta(seconds=table.seconds)
    start = _event("START", begun, number, job, _engine(), sources, [target])
    columns = _columns(config, cfg)
    outputs = target | {"facets": _output_facets(cfg, sources, columns)}
    checked = {"inputFacets": _assertions(table.checks)} if table.checks else {}
    inputs = [sources[0] | checked, *sources[1:]]
    if table.error is None:
        rows = _facet("outputStatistics", rowCount=table.rows_added, fileCount=table.parts_added)
        outputs["outputFacets"] = {"outputStatistics": rows}
        return start, _event("COMPLETE", at, number, job, _engine(), inputs, [outputs])
    return start, _event("FAIL", at, number, job, _engine() | _error(table.error), inputs, [outputs])


def _event(
    kind: str,
    at: datetime,
    run: str,
    job: Json,
    facets: Json,
    inputs: Sequence[Json],
    outputs: Sequence[Json],
) -> Json:
    return {
        "eventType": kind,
        "eventTime": at.isoformat(),
        "run": {"runId": run, "facets": facets},
        "job": job,
        "inputs": list(inputs),
        "outputs": list(outputs),
        "producer": PRODUCER,
        "schemaURL": _EVENT,
    }


def _facet(facet: str, /, **fields: Any) -> Json:
    version, _, kind = _FACETS[facet].partition("/")
    url = f"{_SPEC}/facets/{version}/{kind}.json#/$defs/{kind}"
    return {"_producer": PRODUCER, "_schemaURL": url, **fields}


def input_datasets(config: Config, cfg: TableConfig) -> list[Json]:
    """What the table is made of: other tables, or files as OpenLineage names files and objects."""
    if cfg.derived is not None:
        return [_table_dataset(config, name) for name in cfg.derived.tables]
    return [_files_dataset(cfg)]


def _files_dataset(cfg: TableConfig) -> Json:
    if cfg.url is None:
        return {"namespace": "file", "name": f"{cfg.root}/{cfg.path}"}
    space, name = _split(cfg.url)
    return {"namespace": space, "name": "/".join(filter(None, (name, cfg.path)))}


def _table_dataset(config: Config, table: str) -> Json:
    url = str(config.place(table).url)
    if "://" not in url:
        return {"namespace": "file", "name": url}
    space, name = _split(url)
    return {"namespace": space, "name": name}


def _split(url: str) -> tuple[str, str]:
    parts = urlsplit(bare(url))
    return f"{parts.scheme}://{parts.netloc}", parts.path.strip("/")


def _columns(config: Config, cfg: TableConfig) -> list[tuple[str, str]]:
    try:
        schema = load_schema(config.schema_file(cfg.name))
    except LadingError:
        return []
    return [(column.name, column.type) for column in schema.columns] if schema is not None else []


def _output_facets(cfg: TableConfig, sources: Sequence[Json], columns: Sequence[tuple[str, str]]) -> Json:
    """A transform or a query makes columns of its own, of which nobody but it knows where they are from."""
    if not columns or cfg.transform is not None or cfg.derived is not None:
        return {}
    fields = [{"name": name, "type": dtype} for name, dtype in columns]
    named = name_columns(cfg.columns_from_name)
    how = [{"type": "DIRECT", "subtype": "IDENTITY"}]
    lineage = {
        name: {"inputFields": [{**sources[0], "field": name, "transformations": how}]}
        for name, _ in columns
        if name not in named
    }
    return {
        "schema": _facet("schema", fields=fields),
        "columnLineage": _facet("columnLineage", fields=lineage),
    }


def _assertions(checks: Sequence[CheckResult]) -> Json:
    told = [
        {"assertion": check.name, "success": check.passed, "severity": check.severity, "name": check.name}
        | ({"description": hide(check.message)} if check.message else {})
        for check in checks
    ]
    return {"dataQualityAssertions": _facet("dataQualityAssertions", assertions=told)}


def _engine() -> Json:
    from importlib.metadata import version

    told = version("lading")
    return {
        "processing_engine": _facet(
            "processing_engine", version=told, name="lading", openlineageAdapterVersion=told
        )
    }


def _error(error: LadingError) -> Json:
    message = f"{error.kind}: {error.message}" + (f" ({error.hint})" if error.hint else "")
    return {"errorMessage": _facet("errorMessage", message=hide(message), programmingLanguage="PYTHON")}


def deliver(told: OpenLineage, events: Sequence[Json]) -> None:
    """To the file and to the URL; whatever goes wrong is raised."""
    for event in events:
        data = json.dumps(hide_within(event)).encode()
        if told.file is not None:
            _append(told.file, data)
        if told.url is not None:
            _post(told, data)


def _append(file: Path, data: bytes) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    with open(file, "ab", buffering=0) as out:
        out.write(data + b"\n")  # one write, so that runs side by side never mix theirs


def _post(told: OpenLineage, data: bytes) -> None:
    from urllib.request import Request, urlopen  # late: few have a URL, and it loads half of Python's network

    assert told.url is not None
    headers = {"Content-Type": "application/json"}
    if told.api_key is not None:
        headers["Authorization"] = f"Bearer {told.api_key}"
    with urlopen(Request(told.url, data, headers, method="POST"), timeout=_TIMEOUT):
        pass
