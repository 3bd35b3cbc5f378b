"""Refuses plans whose rows would differ from one reading to the next.

A table must equal its rebuild, so a transform may not depend on chance, on the clock or on how Spark
cut the work. Spark itself calls `current_timestamp()` deterministic and replaces it by a literal when it
optimises, so the analysed plan is searched, as text: that works without the JVM and on Spark Connect.
A text literal that reads like such a call is refused too: better so than the other way round.
"""

from __future__ import annotations

import contextlib
import io
import re
import threading
from collections.abc import Collection

from pyspark.sql import DataFrame

from lading.config.sql import CHANGING

_ANALYSED = re.compile(r"== Analyzed Logical Plan ==\n[^\n]*\n(.*?)(?=^== |\Z)", re.DOTALL | re.MULTILINE)
_OPTIMISED = re.compile(r"== Optimized Logical Plan ==\n(.*?)(?=^== |\Z)", re.DOTALL | re.MULTILINE)
_CALL = re.compile(rf"(?<![\w.`])({'|'.join(sorted(CHANGING))}|current_\w+)\(", re.IGNORECASE)
# A text that Spark reads as the time at which it reads it. One that was written with its type before it,
# timestamp 'now', is a plain value by the time there is a plan, and not to be told from others.
_MOMENT = re.compile(
    r"\b(?:try_)?cast\(\s*(now|today|tomorrow|yesterday)\b[^()#]* as (?:date|timestamp\w*)\)", re.IGNORECASE
)
# Functions that become casts only behind the analyser; those of the second group do so only beside a time.
_CASTING = re.compile(
    r"\b(?:((?:try_)?to_(?:date|timestamp(?:_ltz|_ntz)?))|between|nullif|ifnull|nvl2?)\(", re.IGNORECASE
)
_MOMENT_ARGUMENT = re.compile(r"(?:^|, )\s*(now|today|tomorrow|yesterday)\b[^,()#]*(?=,|\Z)", re.IGNORECASE)
_AS_TIME = re.compile(r" as (?:date|timestamp\w*)\)")
# What has rows of its own besides the given ones; `exists(…)` with parentheses is a function on arrays.
_QUERY = re.compile(r"(?:subquery|exists|list)#\d+ \[|^:", re.MULTILINE)
_VARIABLE = re.compile(r"variablereference\(([^=()]*)=")
_SAMPLE = re.compile(r"^[\s:|+\-]*(Sample) [\d.]", re.MULTILINE)
_explaining = threading.Lock()  # PySpark prints plans, and where to is the whole process's


def nondeterministic(frame: DataFrame, times: Collection[str] = ()) -> str | None:
    """The first expression of the frame's plan that isn't reproducible; None when there is none. `times` are
    the columns, as far as they are known, that hold dates and timestamps."""
    plan = analysed_plan(frame)
    for match in _CALL.finditer(plan):
        end = _closing(plan, match.end())
        if not re.match(r"#\d", plan[end : end + 2]):  # `rand(5)#12` is a column that has that name
            return f"{match[1].lower()}()"
    moment = _MOMENT.search(plan)
    word = moment[1].lower() if moment is not None else _hidden_moment(plan, times)
    if word is not None:
        return f"{word!r} as a time"
    if _random_cipher(plan):
        return "aes_encrypt() without an iv"
    return "sample()" if _SAMPLE.search(plan) else None


def _hidden_moment(plan: str, times: Collection[str]) -> str | None:
    for match in _CASTING.finditer(plan):
        inside = plan[match.end() : _closing(plan, match.end()) - 1]
        word = _MOMENT_ARGUMENT.search(inside)
        if word is None:
            continue
        named = {name for name, _ in re.findall(r"([^\s(),]+)#(\d+)", inside)}
        if match[1] or _AS_TIME.search(inside) or not named.isdisjoint(times):
            return word[1].lower()
    return None


def _random_cipher(plan: str) -> bool:
    """Whether something is encrypted from a starting point that Spark makes up each time."""
    for match in re.finditer(r"\baes_encrypt\(", plan, re.IGNORECASE):
        inside = plan[match.end() : _closing(plan, match.end()) - 1]
        if ", ECB, " not in inside.upper() and ", cast( as binary)," in inside:
            return True
    return False


def foreign(frame: DataFrame) -> str | None:
    """What a frame asks for besides the one relation that it was made from; None when there is nothing."""
    plan = analysed_plan(frame)
    if (variable := _VARIABLE.search(plan)) is not None:
        return f"the session's variable {variable[1].rpartition('.')[2]}"
    return "a query of its own" if _QUERY.search(plan) else None


def analysed_plan(frame: DataFrame) -> str:
    """The plan as the analyser left it, without the line that lists the columns it gives."""
    return plans_of(frame)[0]


def plans_of(frame: DataFrame) -> tuple[str, str]:
    """The plan as the analyser left it, and as the optimiser did."""
    out = io.StringIO()
    with _explaining, contextlib.redirect_stdout(out):
        frame.explain(extended=True)
    text = out.getvalue()
    analysed, optimised = _ANALYSED.search(text), _OPTIMISED.search(text)
    return analysed[1] if analysed else text, optimised[1] if optimised else text


def _closing(plan: str, start: int) -> int:
    """Behind the parenthesis that closes the one before `start`."""
    depth = 1
    for place in range(start, len(plan)):
        depth += {"(": 1, ")": -1}.get(plan[place], 0)
        if depth == 0:
            return place + 1
    return len(plan)
