"""How a command that fails says so: a sentence and a hint for people, one object for scripts.

Exit codes: 1 work failed, 3 config or usage error, 130 interrupted.
"""

from __future__ import annotations

import re
import traceback
from pathlib import Path
from typing import Any

from lading.cli.terminal.invocation import Invocation
from lading.cli.terminal.screen import note, print_json
from lading.errors import ConfigError, LadingError, Unexpected
from lading.secrets import hide
from lading.signals.log import log_unexpected, unexpected_hint
from lading.storage.folder import disk_failure


def print_error(error: LadingError) -> None:
    named = error.table and re.search(rf"(?<![\w.]){re.escape(error.table)}(?![\w.])", error.message)
    where = f"{error.table}: " if error.table and not named else ""
    # A config may have many faults, one a line. Other line ends are those of file names.
    first, *more = error.message.split("\n") if isinstance(error, ConfigError) else [error.message]
    for line in (f"error: {where}{first}", *more):
        note(line)
    if error.hint:
        note(f"hint: {error.hint}")


def lading_failure(error: LadingError, invocation: Invocation) -> int:
    return _say(error.kind, error, invocation, error.exit_code)


def usage_failure(error: Any, invocation: Invocation) -> int:
    """`error` is click's: it can format itself and knows the command."""
    command = error.ctx.command_path if getattr(error, "ctx", None) else "lading"
    message = str(error.format_message()).rstrip(".")
    return _say("UsageError", LadingError(message, hint=f"see `{command} --help`"), invocation, 3)


def interrupted(invocation: Invocation) -> int:
    error = LadingError(
        "interrupted", hint="nothing is lost; the next `lading run` picks up where this one stopped"
    )
    return _say("Interrupted", error, invocation, 130)


def unexpected(error: Exception, invocation: Invocation) -> int:
    """A disk that failed is named. Anything else is a bug: its traceback goes where it can be found again."""
    disk = disk_failure(error) if isinstance(error, OSError) else None
    if disk is not None:
        return lading_failure(disk, invocation)
    told = Unexpected.of(error)
    say_where(told, invocation.project if invocation.is_project else None)
    return lading_failure(told, invocation)


def say_where(error: Unexpected, project: Path | None) -> None:
    """Log the traceback with the project, or show it; the hint then says where it is."""
    if project is not None and log_unexpected(project, error):
        return
    for line in hide("".join(traceback.format_exception(error.__cause__ or error)).rstrip()).split("\n"):
        note(line)
    error.hint = unexpected_hint("above")


def _say(kind: str, error: LadingError, invocation: Invocation, exit_code: int) -> int:
    if invocation.as_json:
        print_json({"error": {**error.as_json(), "kind": kind}})
    else:
        print_error(error)
    return exit_code
