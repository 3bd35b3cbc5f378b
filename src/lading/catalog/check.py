"""Whether a collection is whole: its log and checkpoint, and every file that they list."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from lading.catalog.intake import in_parallel, read_footer
from lading.catalog.table import Table
from lading.errors import LadingError, PartError
from lading.model import Member


@dataclass(frozen=True, slots=True)
class Problem:
    path: str
    problem: str


def check_collection(folder: Path) -> tuple[int, list[Problem]]:
    """How many members there are, and what is wrong; reads the whole log and every footer, no rows."""
    try:
        table = Table.open(folder)
        try:
            table.state.columns()  # every row and every vector of the checkpoint against its checksum
            members = table.state.candidates(None)
        finally:
            table.close()
    except LadingError as error:
        return 0, [Problem(error.file or str(folder), f"{error.message} ({error.hint})")]
    found = in_parallel(lambda member: _problem(folder, member), members)
    return len(members), [problem for problem in found if problem is not None]


def _problem(folder: Path, member: Member) -> Problem | None:
    try:
        footer = read_footer(Path(os.path.join(folder, member.path)), member.path)
    except PartError as error:
        return Problem(member.path, error.message)
    if footer.bytes != member.bytes:
        return Problem(member.path, f"it has {footer.bytes:,} bytes, {member.bytes:,} when it was added")
    if footer.metadata.num_rows != member.rows:
        return Problem(member.path, f"it has {footer.metadata.num_rows:,} rows, the log says {member.rows:,}")
    return None
