"""numpy and Arrow for rooms that most commands pass through without needing them: loaded when one of their
names is first used. Both take longer to load than `lading status` takes to answer.

    from lading.late import np, pa, pc
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq
else:

    class _Late:
        """A module's names; after the first one, they are as near as the module's own."""

        def __init__(self, module: str) -> None:
            self._module = module

        def __getattr__(self, name: str) -> Any:
            module = import_module(self._module)
            self.__dict__.update({key: value for key, value in vars(module).items() if key[:2] != "__"})
            return getattr(module, name)

    np = _Late("numpy")
    pa = _Late("pyarrow")
    pc = _Late("pyarrow.compute")
    pq = _Late("pyarrow.parquet")

__all__ = ["np", "pa", "pc", "pq"]
