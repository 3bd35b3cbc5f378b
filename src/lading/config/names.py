"""`names` and `from`: which column of the table a header of a file is.

What a header means follows from itself and from lading.yaml, never from other files: whichever comes first,
the columns are called the same.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass, field

from lading.model import ColumnRule, NamesPolicy


def folded(name: str) -> str:
    """In lower case, with one space between words and none around them."""
    return _composed(" ".join(_composed(name).lower().split()))


def snaked(name: str) -> str:
    """`orderID` and `Order ID` are `order_id`; what has neither letters nor digits is only folded."""
    text = _composed(name)
    out: list[str] = []
    for place, char in enumerate(text):
        if unicodedata.category(char)[0] not in "LMN":  # letters, their marks, and numbers
            out.append("_")
        else:
            out += ["_", char] if _begins_word(text, place) else [char]
    words = re.sub("_+", "_", "".join(out)).strip("_")
    return _composed(words.lower()) or folded(name)


def alike(names: Iterable[str]) -> tuple[str, str] | None:
    """The first two that differ only in case: Spark, as most readers of a table, takes them for one."""
    seen: dict[str, str] = {}
    for name in names:
        other = seen.setdefault(name.lower(), name)
        if other != name:
            return other, name
    return None


@dataclass(frozen=True, slots=True)
class Naming:
    """What headers are called in a table; travels to the workers."""

    how: NamesPolicy = "exact"
    columns: tuple[tuple[str, str], ...] = ()  # by the key of their headers
    _by_key: dict[str, str] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_by_key", dict(self.columns))

    @classmethod
    def of(cls, how: NamesPolicy, rules: Iterable[ColumnRule]) -> Naming:
        made = cls(how)
        pairs = ((made.key(header), one.name) for one in rules for header in (one.name, *one.headers))
        return cls(how, tuple(sorted(set(pairs) if how != "exact" else {p for p in pairs if p[0] != p[1]})))

    def column_of(self, header: str) -> str:
        key = self.key(header)
        return self._by_key.get(key, key)

    def key(self, header: str) -> str:
        """The same for headers that mean the same, whatever the table calls it."""
        return {"fold": folded, "snake": snaked}.get(self.how, str)(header)

    def knowing(self, names: Iterable[str]) -> Naming:
        """With the spelling that a schema file has for a column, where lading.yaml has none."""
        if self.how == "exact":
            return self
        more = {self.key(name): name for name in names}
        return Naming(self.how, tuple(sorted((more | self._by_key).items())))


EXACT = Naming()


def _begins_word(text: str, place: int) -> bool:
    """Whether a capital stands behind a small letter or a digit, or is the last before small letters (but for
    a plural: `IDs`)."""
    if not place or not _is_capital(text[place]):
        return False
    before, after = text[place - 1], text[place + 1 : place + 3]
    if not _is_capital(before):
        return before.isalnum()
    plural = after[:1] == "s" and not after[1:].islower()
    return after[:1].islower() and not plural


def _is_capital(char: str) -> bool:
    return char != char.lower()


def _composed(text: str) -> str:
    return unicodedata.normalize("NFC", text)
