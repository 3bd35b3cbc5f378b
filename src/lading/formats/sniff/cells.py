"""What a single value looks like, for those who weigh readings of a text against each other."""

from __future__ import annotations

import re

# Words that stand for nothing. `.` and `?` are what SAS and old statistics packages write.
NULL_WORDS = (
    "NA", "N/A", "n/a", "na", "n.a.", "#N/A", "#N/A N/A", "#NA", "<NA>", "NaN", "nan", "-nan", "NULL",
    "null", "Null", "(null)", "[NULL]", "None", "none", "nil", "NIL", "\\N", "-", "--", "---", "–", "—", "?",
    ".", "..", "...", "*", "missing", "Missing", "MISSING", "unknown", "#NULL!", "#DIV/0!", "#VALUE!",
    "#REF!", "#NAME?", "#NUM!", "1.#QNAN", "1.#IND",
)  # fmt: skip

_NUMBER = r"[+-]?(?:[0-9]{1,3}(?:[., '\u00a0][0-9]{3})+|[0-9]+)?(?:[.,][0-9]*)?(?:[eE][+-]?[0-9]+)?%?"
_DATE = r"(?:[0-9]{4}[-/.][0-9]{1,2}[-/.][0-9]{1,2}|[0-9]{1,2}[-/.][0-9]{1,2}[-/.](?:[0-9]{4}|[0-9]{2}))"
_TIME = (
    r"[0-9]{1,2}:[0-9]{2}(?::[0-9]{2}(?:[.,][0-9]+)?)?(?: ?[AaPp][Mm])?"
    r"(?: ?(?:Z|UTC|[+-][0-9]{2}:?[0-9]{2}))?"
)
_TYPED = re.compile(
    rf"(?=.*[0-9])(?:[$€£] ?)?{_NUMBER}(?: ?[$€£])?|{_DATE}(?:(?:[T ]|, ){_TIME})?|{_TIME}"
    r"|(?i:true|false)"
)
_NULLS = frozenset(NULL_WORDS)
_WORDS = re.compile(r"[\w .'()/&+@#*°%$€£=?!<>-]*")
_LINK = re.compile(r"[a-z]+://\S+|[\w.+-]+@[\w.-]+\.\w+")


def is_typed(text: str) -> bool:
    """Whether it is a number, a date, a time or a boolean, in any of the ways people write them."""
    return _TYPED.fullmatch(text.strip()) is not None


def is_blank(text: str) -> bool:
    return not text.strip() or text.strip() in _NULLS


def tidiness(text: str) -> float:
    """How much a text looks like one value and not like several: from 0 to 1."""
    if len(text) > 200:
        return 0.5
    if is_blank(text) or is_typed(text):
        return 1.0
    if _WORDS.fullmatch(text):
        return 0.9
    return 0.8 if _LINK.fullmatch(text) else 0.3
