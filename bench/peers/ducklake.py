"""DuckLake, with the extension from its wheel: files enter as rows of its metadata tables.

It can't say which files a query would read, and `EXPLAIN` doesn't look for them. So every file in its
metadata is one and the same tiny Parquet file, and the query stops at the first row: what it costs is
the planning, and one small file read.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from bench.fixtures import KEY, RARE, ROWS, kept, version_of

_FIRST = KEY // ROWS


def connect() -> Any:
    """A connection with the extension loaded: like an import, it is no part of opening a table."""
    import duckdb
    import duckdb_extension_ducklake

    home = Path(duckdb_extension_ducklake.__file__).parent
    extension = next(home.glob("extensions/*/ducklake.duckdb_extension"))
    connection = duckdb.connect(config={"autoinstall_known_extensions": False})
    connection.execute(f"LOAD '{extension}'")
    return connection


def table(data: Path, size: int) -> Path:
    made_by = version_of("duckdb") + version_of("duckdb-extension-ducklake") + f"{size} 1"
    folder = kept(data, f"ducklake-{size}", made_by, lambda at: None)
    if not (folder / "done").exists():
        fill(folder, size)
        (folder / "done").touch()
    return folder


def plan(connection: Any, folder: Path, where: str) -> int:
    """Attach the lake, let it find the files for one query, and detach it."""
    connection.execute(f"ATTACH 'ducklake:{folder}/lake.ducklake' AS lake (READ_ONLY)")
    try:
        return len(connection.execute(f"SELECT * FROM lake.t WHERE {where} LIMIT 1").fetchall())
    finally:
        connection.execute("DETACH lake")


def attach(connection: Any, folder: Path) -> None:
    connection.execute(f"ATTACH 'ducklake:{folder}/lake.ducklake' AS lake (DATA_PATH '{folder}/')")


def append(connection: Any, file: Path) -> None:
    connection.execute(f"CALL ducklake_add_data_files('lake', 't', '{file}')")


def fill(at: Path, size: int) -> None:
    at = at.absolute()
    for leftover in at.glob("lake.ducklake*"):
        leftover.unlink()
    connection = connect()
    attach(connection, at)
    connection.execute("CREATE TABLE lake.t(key BIGINT, status INTEGER, host VARCHAR, ms DOUBLE)")
    connection.execute("DETACH lake")
    tiny = at / "tiny.parquet"
    rows = f"SELECT {KEY}::BIGINT AS key, 404::INTEGER AS status, 'h' AS host, 1.0::DOUBLE AS ms"
    connection.execute(f"COPY ({rows}) TO '{tiny}' (FORMAT parquet)")
    if size:
        connection.execute(f"ATTACH '{at}/lake.ducklake' AS meta")
        connection.execute("BEGIN")
        for statement in _statements(tiny, size):
            connection.execute(statement)
        connection.execute("COMMIT")
        connection.execute("DETACH meta")
    connection.close()


def _statements(tiny: Path, size: int) -> list[str]:
    """One snapshot with all the files; the columns are those of DuckLake's format, version 1.0."""
    numbers = f"FROM range({size}) r(i)"
    rare = f"CASE WHEN i % {RARE} = {_FIRST} THEN '404' ELSE '304' END"
    zones = {
        1: (f"(i * {ROWS})::VARCHAR", f"(i * {ROWS} + {ROWS - 1})::VARCHAR"),
        2: ("'200'", rare),
        3: ("'a' || lpad((i % 50)::VARCHAR, 3, '0')", "'z' || lpad((i % 50)::VARCHAR, 3, '0')"),
        4: ("'0.5'", "(100.0 + i % 7)::VARCHAR"),
    }
    files = "data_file_id, table_id, begin_snapshot, path, path_is_relative, file_format, record_count, "
    files += "file_size_bytes, row_id_start"
    stats = (
        "data_file_id, table_id, column_id, column_size_bytes, value_count, null_count, min_value, max_value"
    )
    return [
        f"INSERT INTO meta.ducklake_snapshot SELECT 2, now(), 1, 2, {size + 1}",
        "INSERT INTO meta.ducklake_snapshot_changes (snapshot_id, changes_made) "
        "VALUES (2, 'inserted_into_table:1')",
        f"INSERT INTO meta.ducklake_data_file ({files}) SELECT i + 1, 1, 2, '{tiny}', false, 'parquet', "
        f"{ROWS}, {tiny.stat().st_size}, i * {ROWS} {numbers}",
        *(
            f"INSERT INTO meta.ducklake_file_column_stats ({stats}) "
            f"SELECT i + 1, 1, {column}, 100, {ROWS}, 0, {low}, {high} {numbers}"
            for column, (low, high) in zones.items()
        ),
        f"INSERT INTO meta.ducklake_table_stats VALUES (1, {size * ROWS}, {size * ROWS}, {size * 100_000})",
    ]
