"""Writes docs/reference/cli.md from the commands themselves, so that the page can't lag behind them.

python scripts/gen_docs.py            write it
python scripts/gen_docs.py --check    fail if it is not what would be written
"""

from __future__ import annotations

import inspect
import sys
import typing
from collections.abc import Callable
from enum import Enum
from pathlib import Path
from typing import Any

from typer.models import OptionInfo

from lading.cli.main import app

PAGE = Path(__file__).parent.parent / "docs" / "reference" / "cli.md"

HEAD = """\
# Command line

<!-- Written by scripts/gen_docs.py from the commands; `make docs` writes it again. -->

Exit codes: 0 success (for `plan`: nothing to do), 1 failure, 2 `plan` found something to do,
3 config or usage error, 130 interrupted. With `--json`, an error is one object on stdout:
`{"error": {"kind", "message", "hint", "table", "file"}}`. Every command has `--help`;
`lading --install-completion` sets up shell completion of commands and table names.
"""


def page() -> str:
    assert app.registered_callback is not None and app.registered_callback.callback is not None
    commands = [(f"lading {one.name}", one.callback) for one in app.registered_commands if one.callback]
    for group in app.registered_groups:
        assert group.typer_instance is not None
        inner = group.typer_instance.registered_commands
        commands += [(f"lading {group.name} {one.name}", one.callback) for one in inner if one.callback]
    every = [("lading", app.registered_callback.callback), *commands]
    return "\n".join([HEAD, *(_section(name, function) for name, function in every)])


def _section(name: str, function: Callable[..., Any]) -> str:
    # From the signatures and not from typer's objects, whose shape changes with its versions.
    text, _, example = inspect.cleandoc(function.__doc__ or "").partition("\b\nExample:\n")
    hints = typing.get_type_hints(function, include_extras=True).values()
    parameters = [hint for hint in hints if typing.get_origin(hint) is typing.Annotated]
    lines = [f"## {name}", "", f"`{' '.join([name, *map(_usage, parameters)])}`", "", text.strip(), ""]
    if parameters:
        lines += ["| | |", "|---|---|"]
        lines += [f"| `{_spelled(one)}` | {_info(one).help} |" for one in parameters]
        lines.append("")
    if example:
        lines += ["```sh", inspect.cleandoc(example), "```", ""]
    return "\n".join(lines)


def _info(parameter: Any) -> Any:
    return parameter.__metadata__[0]


def _kind(parameter: Any) -> Any:
    return typing.get_args(parameter)[0]


def _usage(parameter: Any) -> str:
    if isinstance(_info(parameter), OptionInfo):
        return f"[{_spelled(parameter)}]"
    optional = type(None) in typing.get_args(_kind(parameter))
    kind = _kind(parameter)
    many = any(typing.get_origin(one) is list for one in (kind, *typing.get_args(kind)))
    word = _info(parameter).metavar + ("…" if many else "")
    return f"[{word}]" if optional else word


def _spelled(parameter: Any) -> str:
    """An option with what follows it: nothing for a flag, the choices, or the name of the value."""
    info, kind = _info(parameter), _kind(parameter)
    if not isinstance(info, OptionInfo):
        return str(info.metavar)
    # typer keeps the first name of an Annotated option where a default would be.
    names = ", ".join(str(one) for one in (info.default, *(info.param_decls or ())) if str(one)[:1] == "-")
    if kind is bool:
        return names
    if isinstance(kind, type) and issubclass(kind, Enum):
        return f"{names} {'/'.join(str(one.value) for one in kind)}"
    return f"{names} {info.metavar}"


def main() -> int:
    wanted = page()
    if "--check" in sys.argv[1:]:
        if PAGE.is_file() and PAGE.read_text(encoding="utf-8") == wanted:
            return 0
        print(f"{PAGE.name} is not up to date: `make docs` writes it", file=sys.stderr)
        return 1
    PAGE.parent.mkdir(parents=True, exist_ok=True)
    PAGE.write_text(wanted, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
