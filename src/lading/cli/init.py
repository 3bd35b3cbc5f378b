"""lading init: a project to start from."""

from __future__ import annotations

import os
from importlib import resources
from pathlib import Path
from typing import Annotated

from lading.cli.terminal.command import Argument, Context
from lading.cli.terminal.invocation import invocation_of
from lading.errors import ConfigError
from lading.layout.project import CONFIG

_FILES = {
    CONFIG: CONFIG,
    "make_sample_data.py": "make_sample_data.py",
    "transforms/voyages.py": "voyages.py",
}

Folder = Annotated[
    Path | None, Argument(metavar="DIR", help="Where to write it; the current folder by default.")
]


def init(ctx: Context, folder: Folder = None) -> None:
    """Create a starter project.

    Writes a commented lading.yaml, a sample data generator and an example transform. Never overwrites a file.

    \b
    Example:
      lading init shipping
      cd shipping && python make_sample_data.py && lading run
    """
    from lading.cli.terminal.screen import say

    project = invocation_of(ctx).project / (folder or Path())
    write_starter(project)
    for name in _FILES:
        say(f"wrote {project / name}")
    enter = "" if os.path.realpath(project) == os.path.realpath(Path()) else f"cd {project} && "
    say(f"next: {enter}python make_sample_data.py && lading run")


def write_starter(project: Path) -> None:
    """All files or none: what is there already is never replaced."""
    there = [name for name in _FILES if os.path.lexists(project / name)]
    if there:
        raise ConfigError(
            f"{project} already has {', '.join(there)}",
            hint="choose another folder, or move these files away first",
            file=str(project / there[0]),
        )
    starter = resources.files("lading.cli") / "starter"
    try:
        for name, template in _FILES.items():
            path = project / name
            path.parent.mkdir(parents=True, exist_ok=True)
            with open(path, "x", encoding="utf-8") as file:
                file.write((starter / template).read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(
            f"can't write {error.filename}: {error.strerror}", hint="choose a writable folder"
        ) from error
