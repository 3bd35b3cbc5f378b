"""Commands with a word in front: `lading cache status`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import typer


def group(text: str, **commands: Callable[..., Any]) -> typer.Typer:
    """A group of commands; without one of them it prints its help."""
    made = typer.Typer(help=text, rich_markup_mode=None, add_completion=False)

    def show_help(ctx: typer.Context) -> None:
        if ctx.invoked_subcommand is None:
            print(ctx.get_help())

    made.callback(invoke_without_command=True, help=text)(show_help)
    for name, command in commands.items():
        # A key may be negative: -5 is a key and not an option.
        settings = {"ignore_unknown_options": True} if name == "lookup" else None
        made.command(name, context_settings=settings)(command)
    return made
