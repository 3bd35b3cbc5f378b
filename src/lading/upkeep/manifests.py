"""The people's copies of a table, written whole because somebody asks for them: those of large tables may be
older than the log."""

from __future__ import annotations

from dataclasses import dataclass

from lading.config.project import Config
from lading.errors import NotFound
from lading.ingest.look import look
from lading.ingest.record import record_sources, write_table_manifest
from lading.layout.project import source_manifest
from lading.layout.table import TABLE_MANIFEST
from lading.log.table import Table
from lading.watch import Watch


@dataclass(frozen=True, slots=True)
class Written:
    table: str
    sequence: int  # of the log that they show
    files: tuple[str, ...]
    left: str | None = None  # why one of them was left alone


def write_manifests(config: Config, name: str, watch: Watch) -> Written:
    """Both, as the log has it. A source manifest that asks for files to be read is left for the run that
    reads them."""
    seen = look(config, name, watch=watch)
    if not Table.exists(config.place(name)):
        raise NotFound(f"{name} was never run", hint=f"lading run {name}", table=name)
    written, left = [], None
    if seen.ledger.reset is not None or any(one.again is not None for one in seen.known.values()):
        left = f"{source_manifest(name)} asks for files to be read: lading run {name}"
    else:
        record_sources(seen, {}, whole=True)
        written.append(source_manifest(name))
    write_table_manifest(seen.table, asked=True)
    written.append(TABLE_MANIFEST)
    return Written(name, seen.table.state.sequence, tuple(written), left)
