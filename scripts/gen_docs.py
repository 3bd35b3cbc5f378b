"""Writes docs/reference/cli.md from the commands themselves, so that the page can't lag behind them.

python scripts/gen_docs.py            write it
python scripts/gen_docs.py --check    fail if it is not what would be written
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from enum import Enum
from pathlib import Path
from typing import Any

from lading.cli.main import app, lading
from lading.cli.terminal.command import Option, Parameter, kind_of, parameters_of

PAGE = Path(__file__).parent.parent / "docs" / "reference" / "cli.md"

HEAD = """\
# Command line

<!-- Written by scripts/gen_docs.py from the commands; `make docs` writes it again. -->

Exit codes: 0 success (for `plan`: nothing to do), 1 failure, 2 `plan` found something to do,
3 config or usage error, 130 interrupted. With `--json`, an error is one object on stdout:
`{"error": {"kind", "message", "hint", "table", "file"}}`. Every command has `--help`;
`eval "$(_LADING_COMPLETE=bash_source lading)"` (or `zsh_source`, `fish_source`) completes commands and table
names in the shell.
"""


def page() -> str:
    every = {"lading": lading} | {f"lading {name}": one for name, one in app.functions().items()}
    return "\n".join([HEAD, *(_section(name, function) for name, function in every.items())])


def _section(name: str, function: Callable[..., Any]) -> str:
    text, _, example = inspect.cleandoc(function.__doc__ or "").partition("\b\nExample:\n")
    parameters = list(parameters_of(function).values())
    defaults = [inspect.signature(function).parameters[one].default for one in parameters_of(function)]
    words = (_usage(*one, default) for one, default in zip(parameters, defaults, strict=True))
    usage = " ".join([name, *words])
    lines = [f"## {name}", "", f"`{usage}`", "", text.strip(), ""]
    if parameters:
        lines += ["| | |", "|---|---|"]
        lines += [f"| `{_spelled(kind, said)}` | {said.help} |" for kind, said in parameters]
        lines.append("")
    if example:
        lines += ["```sh", inspect.cleandoc(example), "```", ""]
    return "\n".join(lines)


def _usage(annotation: Any, said: Parameter, default: Any) -> str:
    if isinstance(said, Option):
        return f"[{_spelled(annotation, said)}]"
    word = f"{said.metavar}{'…' if kind_of(annotation)[1] else ''}"
    return word if default is inspect.Parameter.empty else f"[{word}]"


def _spelled(annotation: Any, said: Parameter) -> str:
    """An option with what follows it: nothing for a flag, the choices, or the name of the value."""
    if not isinstance(said, Option):
        return str(said.metavar)
    kind, _ = kind_of(annotation)
    names = ", ".join(said.names)
    if kind is bool:
        return names
    if issubclass(kind, Enum):
        return f"{names} {'/'.join(str(one.value) for one in kind)}"
    return f"{names} {said.metavar}"


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
