"""`gate:` in lading.yaml: read to the letter, and every mistake told with its line."""

from __future__ import annotations

from pathlib import Path

import pytest

from lading.config.file import load
from lading.config.gate import Gate, NullLimit
from lading.errors import ConfigError

TABLE = """\
tables:
  voyages:
    path: "*.csv"
    format: csv
"""


def gate(folder: Path, text: str) -> Gate | None:
    (folder / "lading.yaml").write_text(TABLE + text)
    return load(folder).tables["voyages"].gate


def test_a_gate_is_read(tmp_path: Path) -> None:
    told = gate(
        tmp_path,
        """\
    gate:
      rows: {max_drop: 10%, max_grow: 250 %}
      nulls:
        tonnes: 5%
        port: {max: 1%, max_increase: 0.5%}
      unique: [ship, day]
      sql: ["tonnes >= 0", "count(*) > 0"]
""",
    )
    assert told == Gate(
        max_drop=0.1,
        max_grow=2.5,
        nulls={"tonnes": NullLimit(0.05), "port": NullLimit(0.01, 0.005)},
        unique=("ship", "day"),
        sql=("tonnes >= 0", "count(*) > 0"),
    )


def test_a_table_has_no_gate_unless_it_says_so(tmp_path: Path) -> None:
    assert gate(tmp_path, "") is None
    assert gate(tmp_path, "    gate: {unique: id}\n") == Gate(unique=("id",))


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("{rows: {max_drop: 10}}", "tables.voyages.gate.rows.max_drop: must be a share such as 10%"),
        ("{rows: {max_drop: 101%}}", "at most 100%"),
        ("{rows: {maxdrop: 10%}}", "did you mean 'max_drop'?"),
        ("{row: {max_drop: 10%}}", "did you mean 'rows'?"),
        ("{nulls: {port: many}}", "tables.voyages.gate.nulls.port: must be a share"),
        ("{nulls: {port: {most: 1%}}}", "unknown key"),
        ("{unique: []}", "must be text or a list of texts"),
        ("{unique: 5}", "must be text or a list of texts"),
        ("{sql: ['']}", "must be text or a list of texts"),
        ("yes please", "must be a mapping"),
    ],
)
def test_a_mistake_is_told_with_its_line(tmp_path: Path, text: str, told: str) -> None:
    with pytest.raises(ConfigError) as caught:
        gate(tmp_path, f"    gate: {text}\n")
    assert told in caught.value.message and "lading.yaml:5" in caught.value.message
