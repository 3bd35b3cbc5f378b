"""Whether the values of a column can be read as the type that is pinned for it, by the reader's rules."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from lading.formats.infer.kinds import Kinds
from lading.model import Column


@dataclass(frozen=True, slots=True)
class Fits:
    """Under the table's own formats, if it has any."""

    kinds: Kinds

    def first_misfit(self, values: pa.Array, column: Column) -> int | None:
        """The place of the first value, none of which is null, that can't be read as the column's type."""
        misfits = None if self.all_fit(values, column) else self.kinds.texts.read(values, column)[1]
        return None if misfits is None else int(pc.index(misfits, True).as_py())

    def all_fit(self, values: pa.Array, column: Column) -> bool:
        return self.kinds.texts.all_fit(values, column)
