"""The line of a bad row, by a second read of its file.

Spark hands out the text of a row that doesn't fit, not its place, and it may have put that text together
from the row's fields. The first record with that text, or with those fields, is as bad as any other like
it, so it is the one to show.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping
from typing import Any

from lading.formats.heads import Dialect
from lading.formats.records import records
from lading.model import DELIMITERS, BadRow, Format, FoundFile, Layout


def locate(
    found: FoundFile,
    bad: BadRow,
    *,
    fmt: Format,
    read_options: Mapping[str, Any],
    layout: Layout | None = None,
) -> int | None:
    """1-based line where the record starts; None when its text is not in the file or it has no lines."""
    if fmt == "parquet":
        return None
    fields = _Fields(Dialect.of(read_options, fmt), bad.text) if fmt in DELIMITERS else None
    like_it = None
    for line, text in records(found.path, fmt, read_options, layout=layout):
        if line == 1:
            text = text.removeprefix("\ufeff")
        if text == bad.text:
            return line
        if like_it is None and fields is not None and fields.are_of(text):
            like_it = line
    return like_it


class _Fields:
    """The fields of a record, to be found again whatever quotes and spaces stand around them."""

    def __init__(self, dialect: Dialect, text: str) -> None:
        self._dialect = dialect
        self._bare = self._stripped(text)
        self._fields = self._parsed(text)

    def are_of(self, text: str) -> bool:
        # The cheap question first: it is asked of every record of the file.
        return self._stripped(text) == self._bare and self._parsed(text) == self._fields

    def _stripped(self, text: str) -> str:
        bare = text.replace(self._dialect.quote, "").replace("\r", "")
        return bare.replace(" ", "") if self._dialect.trim else bare

    def _parsed(self, text: str) -> list[str] | None:
        try:
            fields = next(iter(self._dialect.reader(iter(text.splitlines(keepends=True)))), [])
        except csv.Error:
            return None
        plain = [field.replace("\r\n", "\n") for field in fields]
        return [field.strip() for field in plain] if self._dialect.trim else plain
