"""lading health: whether readers get answers, for people and for monitoring."""

from __future__ import annotations

import re
from typing import Annotated, Any

from lading.cli.terminal.command import Context, Exit, Option
from lading.cli.terminal.invocation import Json, Offset, Ref, Tables, config_of, open_published
from lading.config.project import Config
from lading.errors import ConfigError, LadingError

_EXIT = {"ok": 0, "degraded": 1, "failing": 2}
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_AGE = re.compile(r"([0-9]+(?:\.[0-9]+)?)([smhd]?)")

MaxAge = Annotated[
    str | None,
    Option("--max-age", metavar="AGE", help="Report degraded if the snapshot is older: 90s, 15m, 12h, 2d."),
]
Deep = Annotated[bool, Option("--deep", help="Hash every shard instead of checking only its size.")]


def health(
    ctx: Context,
    tables: Tables = None,
    max_age: MaxAge = None,
    deep: Deep = False,
    json: Json = False,
    ref: Ref = None,
    offset: Offset = None,
) -> None:
    """Check whether readers get answers.

    Exits with 0 if all is well, 1 if answers are too old or come from an earlier snapshot (degraded),
    2 if some can't be given (failing).

    \b
    Example:
      lading health
      lading health ships --max-age 12h --json || page-somebody
    """
    from lading.cli.terminal.screen import print_json, say, show_table

    config = config_of(ctx)
    age = None if max_age is None else _seconds(max_age)
    found = [
        _health(config, name, age, deep=deep, ref=ref, offset=offset)
        for name in tables or list(config.tables)
    ]
    worst = max((one["status"] for one in found), key=_EXIT.__getitem__, default="ok")
    if json:
        print_json({"status": worst, "tables": found})
    else:
        show_table(
            ("table", "status", "published", "shards", "what is wrong"),
            (
                (one["table"], one["status"], one.get("published_at"), one.get("shards"),
                 "; ".join(one["problems"]))
                for one in found
            ),
            right=("shards",),
        )  # fmt: skip
        say(f"{worst}.")
    raise Exit(_EXIT[worst])


def _health(
    config: Config, name: str, max_age: float | None, *, deep: bool, ref: str | None, offset: int | None
) -> dict[str, Any]:
    import warnings

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a snapshot that stands in is part of the answer
            with open_published(config, name, ref=ref, offset=offset) as reader:
                return reader.health(max_age=max_age, deep=deep) | {"table": name}
    except ConfigError:
        raise  # the question is wrong, not the table
    except LadingError as error:
        return {"table": name, "status": "failing", "problems": [error.message], "hint": error.hint}


def _seconds(text: str) -> float:
    match = _AGE.fullmatch(text.strip())
    if match is None:
        raise ConfigError(f"--max-age {text!r} is not an age", hint="write it as 90s, 15m, 12h or 2d")
    return float(match[1]) * _SECONDS[match[2] or "s"]
