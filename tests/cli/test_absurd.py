"""Every command with every one of its parameters absurd: a sentence each time, never a traceback.

The commands and their parameters are click's own list, so one that is added later is tried as well.
"""

import io
import shutil
import webbrowser
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import uvicorn

from lading.cli.main import app, invoke
from lading.cli.terminal.command import Commands
from lading.watcher.loop import Watcher

GOLDEN = Path(__file__).parents[1] / "golden" / "0.1.0"
CONFIG = """\
spark: {master: 'sc://127.0.0.1:1'}
tables: {t: {path: 'none/*.csv', format: csv, order_by: id}}
"""
GOOD = {
    "table": "t", "key": "3", "file": "none/x.csv", "before": "~1", "after": "~0", "dir": "collection",
    "member": "f0.parquet", "n": "1", "folder": "fresh", "files": "f0.parquet", "members": "f0.parquet",
}  # fmt: skip
ABSURD = (
    "",
    " ",
    "\n",
    "-1",
    "0",
    "1.5",
    "1e400",
    "nan",
    str(2**63),
    "-" + "9" * 30,
    "9" * 5_000,
    "9" * 40 + "h",
    "9" * 40 + "GB",
    "x" * 5_000,
    "a/" * 3_000,
    "plain.txt",
    "plain.txt/below",
    "none",
    "caf\udce9",  # an argument that is not UTF-8, as Python hands it over
    "\x1b[31m\u202e",
    "%s{0}${HOME}",
    "'\"`\\",
    "(" * 500 + "id = 1" + ")" * 500,
    "not " * 500 + "id = 1",
    "id in (" + ", ".join(map(str, range(3_000))) + ")",
    " or ".join(["id = 1"] * 1_000),
    "id = " + "9" * 5_000,
    "id = 1e999999999",
    "id like '" + "%a" * 500 + "'",
    "9999-12-31T23:59:59-23:59",
    "0001-01-01T00:00:00+23:59",
    "2024-13-45",
    "24:00",
    "[" * 5_000,
    '{"a": ' * 5_000,
    "s3://",
    "s3://[",
    "sc://[::1",
)


def commands(command: Any = None, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    command = command or app
    if not isinstance(command, Commands):
        yield path, command
        return
    for name in command.table:
        yield from commands(command.get_command(None, name), (*path, name))


def command_lines(path: tuple[str, ...], params: list[Any], value: str) -> Iterator[list[str]]:
    """A line for each parameter that takes a value: `value` for it, what is right for the others."""
    arguments = [one for one in params if one.param_type_name == "argument"]
    for param in params:
        if param.param_type_name == "option" and param.is_flag:
            continue
        if value not in COMMONEST and path != FIRST[param.name, *param.opts]:
            continue
        line = list(path)
        if param.param_type_name == "option":
            line.append(f"{param.opts[0]}={value}")
        line.append("--")
        for one in arguments:
            if one is param:
                line.append(value)
            elif one.required:
                line.append(GOOD[one.name])
        yield line


COMMONEST = ("", "\n", str(2**63), "9" * 5_000, "caf\udce9")
# What several commands have under one name is the same code: one of them gets all values, the others these.
FIRST: dict[tuple[str, ...], tuple[str, ...]] = {}
for _path, _command in commands():
    for _param in _command.params:
        FIRST.setdefault((_param.name, *_param.opts), _path)


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "lading.yaml").write_text(CONFIG)
    (tmp_path / "plain.txt").write_text("plain\n")
    (tmp_path / "none").mkdir()
    shutil.copytree(GOLDEN / "table", tmp_path / "warehouse" / "t")
    shutil.copytree(GOLDEN / "collection", tmp_path / "collection")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("path", "command"), list(commands()), ids=lambda one: " ".join(one) if type(one) is tuple else ""
)
def test_no_value_of_a_parameter_ends_in_a_traceback(
    project: Path,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    path: tuple[str, ...],
    command: Any,
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO())
    # Watching, with values that are right, goes on for ever: here it stops before its first run.
    monkeypatch.setattr(Watcher, "step", Watcher.stop)
    monkeypatch.setattr(Watcher, "_warm_up", lambda watcher: None)
    # So does the page: here its server ends at once, and no browser is opened.
    monkeypatch.setattr(uvicorn.Server, "run", lambda server, sockets: [one.close() for one in sockets])
    monkeypatch.setattr(webbrowser, "open", lambda url: True)
    params = [one for one in command.params if one.name != "help"]
    wrong = []
    for value in ABSURD:
        for line in command_lines(path, params, value):
            code = invoke(line)
            out, err = capfd.readouterr()
            said = out + err
            if code not in (0, 1, 2, 3) or "Traceback" in said or "unexpected " in err:
                wrong.append((line, code, err[-300:]))
    assert not wrong, f"{len(wrong)} of them: {[(line, err) for line, _, err in wrong[:5]]}"


@pytest.mark.parametrize(
    "place", ["plain.txt", "plain.txt/below", "x" * 300, "none/../missing", "bro\udce9ken"]
)
@pytest.mark.parametrize("line", ["status", "run", "init", "plan --json", "scan t"])
def test_no_project_ends_in_a_traceback(
    project: Path, capfd: pytest.CaptureFixture[str], place: str, line: str
) -> None:
    code = invoke(["-C", place, *line.split()])
    out, err = capfd.readouterr()
    assert code in (0, 1, 3) and "Traceback" not in err and "unexpected" not in err + out
