"""What a reader needs to know of a table, and nothing of where that is written.

A checkpoint, a snapshot and a test's list all answer these questions, so scan and lookup are
written once and neither knows a file format nor who asks.
"""

from __future__ import annotations

from typing import Protocol

from lading.model import Bound, Member, Place
from lading.where.tree import Predicate


class MemberSet(Protocol):
    """The live members of one table at one moment."""

    @property
    def root(self) -> Place:
        """What relative member paths start from: a directory, or a place in a bucket."""

    @property
    def schema(self) -> bytes:
        """The table's Arrow schema in IPC form. Bounds are in the units of its types."""

    @property
    def order_by(self) -> str | None:
        """The column that members are sorted by, if there is one."""

    def count(self) -> int:
        """How many live members there are, without reading them."""

    def candidates(self, where: Predicate | None) -> list[Member]:
        """The members that a bound predicate can't rule out, in key order."""

    def holding(self, key: Bound) -> list[Member]:
        """The members whose key range contains `key`; an unknown end of a range excludes nothing."""
