"""Whether a collection is whole: its log and checkpoint, and every file that they list."""

from __future__ import annotations

from dataclasses import dataclass

from lading.errors import LadingError, StorageError
from lading.log.table import Table
from lading.model import Member
from lading.parts.intake import footer_of, in_parallel
from lading.parts.open import shown_path
from lading.storage.place import Where
from lading.words import count_words


@dataclass(frozen=True, slots=True)
class Damage:
    path: str
    problem: str


def check_collection(where: Where) -> tuple[int, list[Damage]]:
    """How many members there are, and what is wrong; reads the whole log and every footer, no rows."""
    try:
        table = Table.open(where)
        try:
            if table.state.base is not None:
                table.state.base.check()
            members = table.state.candidates(None)
        finally:
            table.close()
    except StorageError:
        raise  # no answer is no damage
    except LadingError as error:
        return 0, [Damage(error.file or str(where), f"{error.message} ({error.hint})")]
    found = in_parallel(lambda member: _problem(where, member), members)
    return len(members), [problem for problem in found if problem is not None]


def _problem(where: Where, member: Member) -> Damage | None:
    try:
        footer = footer_of(where, member.path)
    except FileNotFoundError:
        return Damage(member.path, f"{shown_path(where, member.path)} is not there")
    except StorageError:
        raise
    except LadingError as error:
        return Damage(member.path, error.message)
    if footer.bytes != member.bytes:
        return Damage(
            member.path, f"it has {footer.bytes:,} bytes, but had {member.bytes:,} when it was added"
        )
    if footer.metadata.num_rows != member.rows:
        return Damage(
            member.path,
            f"it has {count_words(footer.metadata.num_rows, 'row')}, the log says {member.rows:,}",
        )
    return None
