"""The kind of a column of some texts."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from lading.formats.infer.classify import classify
from lading.formats.infer.kinds import Kinds


def kind_of(kinds: Kinds, *values: str, numbers: bool = True) -> str:
    """The kind that all of them have."""
    bits = classify(kinds.texts, pa.array(values, pa.string()), numbers=numbers)
    return kinds.name(int(np.bitwise_and.reduce(bits)))
