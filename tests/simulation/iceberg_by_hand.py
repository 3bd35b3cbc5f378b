"""An Iceberg reader in plain code: hint, metadata, list of manifests, manifests, parts minus dead positions.

Written from Iceberg's specification. Of lading it takes nothing but named bytes from a place.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq

Pause = Callable[[str], None]  # called before each step with its name: time may pass there
Row = dict[str, Any]


class Broken(Exception):
    """What it was led to isn't there, or isn't what the specification asks for."""


@dataclass
class Shown:
    """One snapshot as an Iceberg reader sees it."""

    version: int
    ref: str  # of the snapshot manifest that it is the twin of
    promised: int  # rows, by the summary
    rows: list[Row] = field(default_factory=list)


class ByHand:
    def __init__(self, get: Callable[[str], bytes], location: str, pause: Pause = lambda step: None) -> None:
        self._get, self._location, self._pause = get, location, pause

    def hint(self) -> int:
        return int(self._get("metadata/version-hint.text"))

    def read(self, *, ahead: bool = False) -> Shown:
        """What the hint leads to; `ahead`, as some engines do, the newest version that is there."""
        version = self.hint()
        self._pause("metadata")
        told = json.loads(self._need(f"metadata/v{version}.metadata.json"))
        while ahead:
            try:
                told = json.loads(self._get(f"metadata/v{version + 1}.metadata.json"))
            except FileNotFoundError:
                break
            version += 1
        shown = next(one for one in told["snapshots"] if one["snapshot-id"] == told["current-snapshot-id"])
        if told["refs"]["main"]["snapshot-id"] != shown["snapshot-id"]:
            raise Broken("main is another snapshot than the current one")
        summary = shown["summary"]
        found = Shown(version, summary["lading.manifest"], int(summary["lading.rows"]))
        [schema] = [one for one in told["schemas"] if one["schema-id"] == told["current-schema-id"]]
        mapping = json.loads(told["properties"]["schema.name-mapping.default"])
        self._pause("list")
        data, deletes = self._files(shown)
        self._pause("parts")
        dead = self._positions(deletes)
        for entry in data:
            found.rows += self._part(entry, schema, mapping, dead)
        return found

    def _files(self, shown: dict[str, Any]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        """Data files and files of deletes, each with the sequence number that counts for it."""
        data, deletes = [], []
        for listed in self._records(self._inside(shown["manifest-list"])):
            self._pause("manifest")
            entries = [
                one for one in self._records(self._inside(listed["manifest_path"])) if one["status"] != 2
            ]
            for entry in entries:
                number = entry["sequence_number"]
                file = entry["data_file"] | {"at": listed["sequence_number"] if number is None else number}
                if (file["content"] == 0) == (listed["content"] == 1):
                    raise Broken(f"{listed['manifest_path']} has a file of another kind than it says")
                (deletes if file["content"] else data).append(file)
        return data, deletes

    def _positions(self, deletes: list[dict[str, Any]]) -> dict[str, list[tuple[int, int]]]:
        found: dict[str, list[tuple[int, int]]] = {}
        for file in deletes:
            if file["content"] != 1:
                raise Broken("deletes by values")
            table = pq.read_table(pa.BufferReader(self._need(self._inside(file["file_path"]))))
            if table.num_rows != file["record_count"]:
                raise Broken(f"{file['file_path']} has {table.num_rows} positions")
            for path, position in zip(table["file_path"].to_pylist(), table["pos"].to_pylist(), strict=True):
                found.setdefault(path, []).append((position, file["at"]))
        return found

    def _part(
        self,
        file: dict[str, Any],
        schema: dict[str, Any],
        mapping: list[dict[str, Any]],
        dead: dict[str, list[tuple[int, int]]],
    ) -> Iterator[Row]:
        path = file["file_path"]
        table = pq.read_table(pa.BufferReader(self._need(self._inside(path))))
        if table.num_rows != file["record_count"]:
            raise Broken(f"{path} has {table.num_rows} rows, not {file['record_count']}")
        by_id = {_number(one, mapping): at for at, one in enumerate(table.schema)}
        columns = {}
        for column in schema["fields"]:
            at = by_id.get(column["id"])
            columns[column["name"]] = (
                [None] * table.num_rows if at is None else _promoted(table.column(at), column["type"])
            )
        gone = {position for position, at in dead.get(path, ()) if at >= file["at"]}
        for number in range(table.num_rows):
            if number not in gone:
                yield {name: values[number] for name, values in columns.items()}

    def _records(self, name: str) -> list[dict[str, Any]]:
        return list(fastavro.reader(io.BytesIO(self._need(name))))  # type: ignore[arg-type]

    def _inside(self, path: str) -> str:
        if not path.startswith(f"{self._location}/"):
            raise Broken(f"{path} is not below {self._location}")
        return path.removeprefix(f"{self._location}/")

    def _need(self, name: str) -> bytes:
        try:
            return self._get(name)
        except FileNotFoundError as error:
            raise Broken(f"{name} is not there") from error


def _number(column: pa.Field, mapping: list[dict[str, Any]]) -> int | None:
    told = (column.metadata or {}).get(b"PARQUET:field_id")
    if told is not None:
        return int(told)
    return next((one["field-id"] for one in mapping if column.name in one["names"]), None)


_KINDS = {
    "long": ("int32", "int64"), "int": ("int8", "int16", "int32"), "double": ("float", "double"),
    "string": ("string", "large_string"), "date": ("date32[day]",), "boolean": ("bool",),
}  # fmt: skip


def _promoted(values: pa.ChunkedArray, kind: str) -> list[Any]:
    """As the schema's type, where Iceberg allows it: int to long, float to double."""
    stored = values.type.value_type if pa.types.is_dictionary(values.type) else values.type
    if str(stored) not in _KINDS.get(kind, (str(stored),)):
        raise Broken(f"a column of {kind} is stored as {stored}")
    found: list[Any] = values.to_pylist()
    return found
