"""A command is a function: its signature says what the command line takes. click parses it, completes words
and prints the help.

Commands are named before they are loaded: `lading status` imports one file of this folder and not thirty.
"""

from __future__ import annotations

import inspect
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from importlib import import_module
from typing import Any

import click

Context = click.Context
Exit = click.exceptions.Exit


class Parameter:
    """What is said of a parameter beside its type: `Annotated[int, Option("--limit", …)]`."""

    def __init__(self, *, help: str, metavar: str | None = None, min: int | None = None) -> None:
        self.help = help
        self.metavar = metavar
        self.min = min


class Option(Parameter):
    """A flag if it is a bool; given several times if it is a list."""

    def __init__(self, *names: str, help: str, metavar: str | None = None, min: int | None = None) -> None:
        super().__init__(help=help, metavar=metavar, min=min)
        self.names = names


class Argument(Parameter):
    def __init__(
        self,
        *,
        metavar: str,
        help: str,
        min: int | None = None,
        complete: Callable[[str], list[str]] | None = None,  # from the beginning of a word to whole ones
    ) -> None:
        super().__init__(help=help, metavar=metavar, min=min)
        self.complete = complete


def parameters_of(function: Callable[..., Any]) -> dict[str, tuple[Any, Parameter]]:
    """By name: the type and what is said of it."""
    hints = typing.get_type_hints(function, include_extras=True)
    return {
        name: (typing.get_args(hint)[0], hint.__metadata__[0])
        for name, hint in hints.items()
        if typing.get_origin(hint) is typing.Annotated
    }


def kind_of(annotation: Any) -> tuple[type, bool]:
    """The type of one value, and whether there may be several: `list[str] | None` is (str, True)."""
    if isinstance(annotation, types.UnionType):
        annotation = next(one for one in typing.get_args(annotation) if one is not type(None))
    if typing.get_origin(annotation) is list:
        return typing.get_args(annotation)[0], True
    return annotation, False


class _Command(click.Command):
    """Its help lists the arguments too."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        arguments = [one for one in self.params if isinstance(one, _Argument)]
        if arguments:
            with formatter.section("Arguments"):
                formatter.write_dl([(one.make_metavar(ctx), one.said.help) for one in arguments])
        super().format_options(ctx, formatter)


class _Argument(click.Argument):
    def __init__(self, name: str, said: Argument, **settings: Any) -> None:
        super().__init__([name], metavar=None, **settings)
        self.said = said

    def make_metavar(self, ctx: click.Context) -> str:
        name = f"{self.said.metavar}{'...' if self.nargs != 1 else ''}"
        return name if self.required else f"[{name}]"


def command(
    name: str, function: Callable[..., Any], settings: Mapping[str, Any] | None = None
) -> click.Command:
    """The command `name`. `settings` are for its context."""
    return _Command(
        name,
        callback=click.pass_context(function),
        params=_parameters(function),
        help=inspect.getdoc(function),
        context_settings=dict(settings or {}),
    )


def _parameters(function: Callable[..., Any]) -> list[click.Parameter]:
    defaults = {one.name: one.default for one in inspect.signature(function).parameters.values()}
    return [
        _parameter(name, annotation, said, defaults[name])
        for name, (annotation, said) in parameters_of(function).items()
    ]


def _parameter(name: str, annotation: Any, said: Parameter, default: Any) -> click.Parameter:
    kind, several = kind_of(annotation)
    required = default is inspect.Parameter.empty
    settings: dict[str, Any] = {"required": True} if required else {"required": False, "default": default}
    if isinstance(said, Argument):
        told = said.complete
        complete = None if told is None else lambda _ctx, _param, word: told(word)
        return _Argument(
            name,
            said,
            type=_click_type(kind, said.min),
            nargs=-1 if several else 1,
            **settings,
            callback=_as_list if several else None,
            shell_complete=complete,
        )
    assert isinstance(said, Option)
    if kind is bool:
        return click.Option([*said.names, name], is_flag=True, default=default, help=said.help)
    return click.Option(
        [*said.names, name],
        type=_click_type(kind, said.min),
        multiple=several,
        **settings,
        metavar=said.metavar,
        help=said.help,
        callback=_as_list if several else None,
    )


def _click_type(kind: type, least: int | None) -> Any:
    if issubclass(kind, Enum):
        return click.Choice(kind)
    return click.IntRange(min=least) if kind is int and least is not None else kind


def _as_list(_ctx: click.Context, _param: click.Parameter, values: Sequence[Any] | None) -> list[Any] | None:
    return list(values) if values else None


class Commands(click.Group):
    """Commands by name, each loaded when it is asked for: `{"scan": "lading.cli.scan:scan"}`. `function` is
    called before any of them, or alone."""

    def __init__(
        self,
        name: str,
        table: Mapping[str, str | Commands],
        *,
        help: str | None = None,
        function: Callable[..., Any] | None = None,
    ) -> None:
        super().__init__(
            name,
            callback=click.pass_context(function or show_help),
            params=_parameters(function) if function is not None else [],
            help=help or inspect.getdoc(function),
            invoke_without_command=True,
        )
        self.table = table

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.table)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        place = self.table.get(name)
        if place is None:
            return None
        if name not in self.commands:
            self.commands[name] = place if isinstance(place, Commands) else _loaded(name, place)
        return self.commands[name]

    def functions(self) -> dict[str, Callable[..., Any]]:
        """All of them, loaded; those of groups behind the group's name and a space."""
        found: dict[str, Callable[..., Any]] = {}
        for name, place in self.table.items():
            if isinstance(place, Commands):
                found |= {f"{name} {inner}": one for inner, one in place.functions().items()}
            else:
                found[name] = _function(place)
        return found


def show_help(ctx: click.Context) -> None:
    """What a group does without one of its commands."""
    if ctx.invoked_subcommand is None:
        print(ctx.get_help())


def _loaded(name: str, place: str) -> click.Command:
    function = _function(place)
    # A key may be negative: -5 is a key and not an option.
    keyed = any(
        said.metavar == "KEY" for _, said in parameters_of(function).values() if type(said) is Argument
    )
    return command(name, function, {"ignore_unknown_options": True} if keyed else None)


def _function(place: str) -> Callable[..., Any]:
    module, _, name = place.partition(":")
    function: Callable[..., Any] = getattr(import_module(module), name)
    return function
