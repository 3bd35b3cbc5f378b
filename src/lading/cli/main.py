"""The command `lading`: one file a command, and the one place where failures become exit codes."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import click

from lading.cli.terminal.command import Commands, Context, Exit, Option, show_help
from lading.cli.terminal.failures import interrupted, lading_failure, unexpected, usage_failure
from lading.cli.terminal.invocation import Invocation, invocation_of
from lading.errors import LadingError

# Where each command is. `lading --help` shows them in this order.
_COMMANDS: dict[str, str | Commands] = {
    "init": "lading.cli.init:init",
    "add": "lading.cli.add:add",
    "discover-schema": "lading.cli.discover_schema:discover_schema",
    "plan": "lading.cli.plan:plan",
    "run": "lading.cli.run:run",
    "watch": "lading.cli.watch:watch",
    "ui": "lading.cli.ui:ui",
    "status": "lading.cli.status:status",
    "explain": "lading.cli.explain:explain",
    "scan": "lading.cli.scan:scan",
    "lookup": "lading.cli.scan:lookup",
    "trace": "lading.cli.trace:trace",
    "get": "lading.cli.get:get",
    "multiget": "lading.cli.get:multiget",
    "route": "lading.cli.get:route",
    "shards": "lading.cli.shards:shards",
    "health": "lading.cli.health:health",
    "sources": "lading.cli.sources:sources",
    "layout": "lading.cli.layout:layout",
    "merge": "lading.cli.merge:merge",
    "iceberg": "lading.cli.iceberg:iceberg",
    "history": "lading.cli.history:history",
    "diff": "lading.cli.diff:diff",
    "rollback": "lading.cli.rollback:rollback",
    "publish": "lading.cli.rollback:publish",
    "runs": "lading.cli.runs:runs",
    "clean": "lading.cli.clean:clean",
    "verify": "lading.cli.verify:verify",
    "repair": "lading.cli.verify:repair",
    "manifest": Commands(
        "manifest",
        {
            "show": "lading.cli.manifest:manifest_show",
            "query": "lading.cli.manifest:manifest_query",
            "reset": "lading.cli.manifest:manifest_reset",
            "write": "lading.cli.manifest:manifest_write",
        },
        help="Show or write down what was read, or ask to read it again.",
    ),
    "collection": Commands(
        "collection",
        {
            "add": "lading.cli.collection.members:add",
            "list": "lading.cli.collection.members:list_",
            "remove": "lading.cli.collection.members:remove",
            "tier": "lading.cli.collection.members:tier",
            "scan": "lading.cli.collection.members:collection_scan",
            "lookup": "lading.cli.collection.members:collection_lookup",
            "merge": "lading.cli.collection.members:merge",
            "compact": "lading.cli.collection.log:compact",
            "check": "lading.cli.collection.log:check",
            "rebuild": "lading.cli.collection.log:rebuild",
        },
        help="Treat Parquet files, wherever they are, as one set.",
    ),
    "quarantine": Commands(
        "quarantine",
        {
            "list": "lading.cli.quarantine:quarantine_list",
            "show": "lading.cli.quarantine:quarantine_show",
            "replay": "lading.cli.quarantine:quarantine_replay",
            "drop": "lading.cli.quarantine:quarantine_drop",
        },
        help="Show, replay or drop what was set aside.",
    ),
    "cache": Commands(
        "cache",
        {"status": "lading.cli.cache:cache_status", "clear": "lading.cli.cache:cache_clear"},
        help="Show or clear extracted and copied files.",
    ),
}

Project = Annotated[Path, Option("-C", metavar="DIR", help="Work on the project in DIR.")]
Version = Annotated[bool, Option("--version", help="Print the version.")]


def lading(ctx: Context, project: Project = Path(), version: Version = False) -> None:
    """Keep tables true to the raw files they come from.

    \b
    Example:
      lading init shipping
      lading -C shipping run
    """
    invocation_of(ctx).project = project
    if version:
        from importlib.metadata import version as version_of

        print(f"lading {version_of('lading')}")
        raise Exit
    show_help(ctx)


app = Commands("lading", _COMMANDS, function=lading)


def invoke(args: Sequence[str]) -> int:
    """Run one command line; the exit code."""
    options = args[: args.index("--")] if "--" in args else args
    invocation = Invocation(as_json="--json" in options)
    try:
        with app.make_context("lading", list(args), obj=invocation) as ctx:
            app.invoke(ctx)
        sys.stdout.flush()
        return 0
    except Exit as done:
        return int(done.exit_code)
    except BrokenPipeError:
        _drop_stdout()
        return 0  # whoever closed the pipe has what they wanted
    except (KeyboardInterrupt, click.Abort):
        return interrupted(invocation)
    except LadingError as error:
        return lading_failure(error, invocation)
    except click.ClickException as error:
        return usage_failure(error, invocation)
    except Exception as error:
        return unexpected(error, invocation)


def _drop_stdout() -> None:
    """Python flushes stdout when it exits, and would complain about the pipe again."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)


def main() -> None:
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")  # a narrow locale is no reason to fail
    # What libraries log goes nowhere: errors that matter are raised, and say more than their tracebacks.
    logging.getLogger().addHandler(logging.NullHandler())
    if "_LADING_COMPLETE" in os.environ:
        app(prog_name="lading")
    sys.exit(invoke(sys.argv[1:]))
