"""The command `lading`: one file a command, and the one place where failures become exit codes."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from lading.cli.add import add
from lading.cli.cache import cache_clear, cache_status
from lading.cli.clean import clean
from lading.cli.collection import members as _collection
from lading.cli.diff import diff
from lading.cli.discover_schema import discover_schema
from lading.cli.explain import explain
from lading.cli.get import get, multiget, route
from lading.cli.health import health
from lading.cli.history import history
from lading.cli.iceberg import iceberg
from lading.cli.init import init
from lading.cli.manifest import manifest_query, manifest_reset, manifest_show
from lading.cli.merge import merge
from lading.cli.plan import plan
from lading.cli.quarantine import quarantine_drop, quarantine_list, quarantine_replay, quarantine_show
from lading.cli.rollback import publish, rollback
from lading.cli.run import run
from lading.cli.runs import runs
from lading.cli.scan import lookup, scan
from lading.cli.shards import shards
from lading.cli.sources import sources
from lading.cli.status import status
from lading.cli.terminal.failures import interrupted, lading_failure, unexpected, usage_failure
from lading.cli.terminal.invocation import Invocation, group, invocation_of
from lading.cli.verify import repair, verify
from lading.errors import LadingError

# The class above every wrong command line. Reached through a public name because typer has moved its
# module; `BadParameter` is a `UsageError` is a `ClickException` in every version.
_CommandLineError: type[Exception] = typer.BadParameter.__mro__[2]

app = typer.Typer(
    name="lading",
    rich_markup_mode=None,  # plain help: quick, and the same text in docs/reference/cli.md
    pretty_exceptions_enable=False,
)

for _command in (
    init, add, discover_schema, plan, run, status, explain, scan, lookup, get, multiget, route, shards,
    health, sources, merge, iceberg,
    history, diff, rollback, publish, runs, clean, verify, repair,
):  # fmt: skip
    # A key may be negative: -5 is a key and not an option.
    _settings = {"ignore_unknown_options": True} if _command in (lookup, get, multiget, route) else None
    app.command(_command.__name__.replace("_", "-"), context_settings=_settings)(_command)

_GROUPS = {
    "manifest": group(
        "Show what was read, or ask to read it again.",
        show=manifest_show,
        query=manifest_query,
        reset=manifest_reset,
    ),
    "collection": _collection.GROUP,
    "quarantine": group(
        "Show, replay or drop what was set aside.",
        list=quarantine_list,
        show=quarantine_show,
        replay=quarantine_replay,
        drop=quarantine_drop,
    ),
    "cache": group("Show or clear extracted and copied files.", status=cache_status, clear=cache_clear),
}
for _name, _group in _GROUPS.items():
    app.add_typer(_group, name=_name)


def _print_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        print(f"lading {version('lading')}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def lading(
    ctx: typer.Context,
    project: Annotated[
        Path, typer.Option("-C", metavar="DIR", help="Work on the project in DIR.", show_default=False)
    ] = Path(),
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Keep tables true to the raw files they come from.

    \b
    Example:
      lading init shipping
      lading -C shipping run
    """
    invocation_of(ctx).project = project
    if ctx.invoked_subcommand is None:
        print(ctx.get_help())


def invoke(args: Sequence[str]) -> int:
    """Run one command line; the exit code."""
    options = args[: args.index("--")] if "--" in args else args
    invocation = Invocation(as_json="--json" in options)
    try:
        with typer.main.get_command(app).make_context("lading", list(args), obj=invocation) as ctx:
            ctx.command.invoke(ctx)
        sys.stdout.flush()
        return 0
    except typer.Exit as done:
        return int(done.exit_code)
    except BrokenPipeError:
        _drop_stdout()
        return 0  # whoever closed the pipe has what they wanted
    except (KeyboardInterrupt, typer.Abort):
        return interrupted(invocation)
    except LadingError as error:
        return lading_failure(error, invocation)
    except _CommandLineError as error:
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
