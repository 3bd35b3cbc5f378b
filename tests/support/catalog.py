"""Engines that read through the Iceberg REST catalog, each attached once."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
from support.iceberg import connected
from support.page import TOKEN

SAIL = Path(__file__).parents[2] / ".sail"  # made by `make soak`


class DuckDB:
    """One connection, attached once: what it sees must not depend on when it looked first."""

    def __init__(self, url: str) -> None:
        self.connection = connected()
        package = importlib.import_module("duckdb_extension_httpfs")
        [file] = Path(str(package.__file__)).parent.rglob("*.duckdb_extension")
        self.connection.execute(f"LOAD '{file}'")
        self.connection.execute(f"ATTACH 'w' AS here (TYPE iceberg, ENDPOINT '{url}', TOKEN '{TOKEN}')")

    def read(self, table: str) -> pa.Table:
        return self.connection.execute(f"SELECT * FROM here.lading.{table}").to_arrow_table()

    def close(self) -> None:
        self.connection.close()


class PyIceberg:
    def __init__(self, url: str, **more: str) -> None:
        from pyiceberg.catalog.rest import RestCatalog

        self.catalog = RestCatalog("here", uri=url, token=TOKEN, **more)

    def read(self, table: str) -> pa.Table:
        return self.catalog.load_table(("lading", table)).scan().to_arrow()

    def close(self) -> None:
        self.catalog.close()


_IN_SAIL = """\
import sys
from pysail.spark import SparkConnectServer
server = SparkConnectServer(port=0)
server.start()
from pyspark.sql import SparkSession
spark = SparkSession.builder.remote(f"sc://127.0.0.1:{server.listening_address[1]}").getOrCreate()
rows = spark.sql(f"SELECT * FROM here.lading.{sys.argv[1]}").toArrow()
import pyarrow as pa
with pa.ipc.new_stream(sys.argv[2], rows.schema) as out:
    out.write_table(rows)
spark.stop()
server.stop()
"""


class Sail:
    """In a process and with a Spark client of its own: it doesn't understand a newer one's requests."""

    def __init__(self, url: str, scratch: Path) -> None:
        listed = f'[{{type="iceberg-rest", name="here", uri="{url}", bearer_access_token="{TOKEN}"}}]'
        self.environment = os.environ | {
            "PYTHONPATH": str(SAIL),
            "SAIL_CATALOG__LIST": listed,
            "SAIL_CATALOG__DEFAULT_CATALOG": "here",
        }
        self.scratch = scratch

    def read(self, table: str) -> pa.Table:
        file = self.scratch / "rows.arrow"
        subprocess.run(
            [sys.executable, "-c", _IN_SAIL, table, str(file)], env=self.environment, check=True, timeout=300
        )
        with pa.ipc.open_stream(file) as rows:
            return rows.read_all()

    def close(self) -> None:
        pass
