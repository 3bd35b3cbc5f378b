"""Parts that Iceberg readers would read otherwise than lading does: stored in a type that isn't the column's.

lading converts what it reads (parts/convert.py); a reader that goes by numbers knows a few widenings and
nothing else. A part that needs more has to be written again before it can be shown. Which ones do, their
footers say: they are opened only when a column changed its number, or a table is shown for the first time.
A whole snapshot that can't be shown is written down: while a rollback holds it, each run asks again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import msgspec
import pyarrow as pa

from lading.errors import PartError, StorageError
from lading.layout.table import UNSETTLED
from lading.model import Member, Place
from lading.parts.field_ids import field_id, fields_within, gone_names, last_id, of_log, stays
from lading.parts.open import open_parquet, shown_path
from lading.state.members import MemberStore
from lading.storage.place import storage_of

_THREADS = 8


def renumbered(before: pa.Schema, now: pa.Schema) -> list[str]:
    """The columns that older parts may hold under another number. Both schemas are numbered.

    Numbers are given once and one after the other. If one that was given since is nobody's by now, a commit
    that was never shown had it, and its parts may hold any of the columns that came or changed since."""
    old = gone_names(before) | {field.name: field_id(field) for field in before}
    last = last_id(before)
    there = {field_id(field) for field in fields_within(now)}
    skipped = any(number not in there for number in range(last + 1, last_id(now) + 1))
    return [
        field.name
        for field in now
        if old.get(field.name, field_id(field)) != field_id(field)
        or (skipped and (field_id(field) or 0) > last)
    ]


class _Looked(msgspec.Struct, frozen=True):
    manifest: str
    parts: int  # of it that can't be shown


def count_unsettled(root: Place, ref: str, members: MemberStore) -> int:
    """How many members of the snapshot manifest `ref` can't be shown as they are."""
    known = _looked(root)
    if known is not None and known.manifest == ref:
        return known.parts
    schema = of_log(members.schema)
    pages = (members.members_in(page) for page in members.pages())  # never all members at once
    parts = sum(len(unsettled(root, schema, page)) for page in pages)
    if parts:
        with suppress(OSError, StorageError):  # then the next run looks again
            storage_of(root).put(UNSETTLED, msgspec.json.encode(_Looked(ref, parts)))
    return parts


def _looked(root: Place) -> _Looked | None:
    try:
        return msgspec.json.decode(storage_of(root).get(UNSETTLED), type=_Looked)
    except (FileNotFoundError, msgspec.MsgspecError, UnicodeDecodeError):
        return None


def unsettled(
    root: Place,
    schema: pa.Schema,
    members: Iterable[Member],
    columns: list[str] | None = None,
    is_known: Callable[[str], bool] = lambda path: False,
) -> list[Member]:
    """The members that can't be shown as they are, going by these columns (all for None). `schema` is
    numbered, members have their zones; one that `is_known` is as it should be."""
    wanted = [schema.field(name) for name in (schema.names if columns is None else columns)]
    asked = [member for member in members if not is_known(member.path)]
    if not wanted or not asked:
        return []
    with ThreadPoolExecutor(_THREADS) as pool:
        found = pool.map(lambda member: _is_settled(root, member, wanted), asked)
        return [member for member, fine in zip(asked, found, strict=True) if not fine]


def _is_settled(root: Place, member: Member, columns: list[pa.Field]) -> bool:
    try:
        with open_parquet(root, member.path, member.bytes) as file:
            stored = file.schema_arrow
    except (OSError, pa.ArrowException) as error:
        path = shown_path(root, member.path)
        raise PartError(
            f"the part {path} can't be read: {error}", hint="`lading verify` lists what is damaged", file=path
        ) from error
    return all(_reads_alike(stored, member, column) for column in columns)


def _reads_alike(stored: pa.Schema, member: Member, column: pa.Field) -> bool:
    at = stored.get_field_index(column.name)
    if at < 0:
        return True  # null, for everybody
    number = field_id(stored.field(at))
    if number is None:  # then its name counts
        return stays(stored.field(at).type, column.type)
    zone = member.zones.get(column.name)
    return number == field_id(column) or (zone is not None and zone.nulls == member.rows)
