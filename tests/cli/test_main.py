"""The command line as scripts and people meet it: exit codes, errors, help, quick starts."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from lading.cli.main import app, invoke
from lading.errors import PipelineError

COMMANDS = (
    "init",
    "add",
    "discover-schema",
    "plan",
    "run",
    "watch",
    "ui",
    "status",
    "explain",
    "scan",
    "lookup",
    "trace",
    "get",
    "multiget",
    "route",
    "shards",
    "health",
    "sources",
    "layout",
    "merge",
    "iceberg",
    "history",
    "diff",
    "rollback",
    "publish",
    "runs",
    "clean",
    "verify",
    "repair",
)
HEAVY = ("pyarrow", "pandas", "polars", "pyspark", "numpy")
CONFIG = "tables: {voyages: {path: '*.csv', format: csv}, ships: {path: '*.json', format: json}}\n"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "lading.yaml").write_text(CONFIG, encoding="utf-8")
    return tmp_path


def lading(*args: str, **more):
    command = [sys.executable, "-c", "from lading.cli.main import main; main()", *args]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, **more)


def raising(error: BaseException):
    def command(*_args, **_more):
        raise error

    return command


def test_every_command_is_there():
    assert tuple(name for name in app.functions() if " " not in name) == COMMANDS


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_with_an_example(command, capsys):
    assert invoke([command, "--help"]) == 0
    shown = capsys.readouterr().out
    assert "Example:" in shown
    assert f"lading {command}" in shown.split("Example:")[1]


def test_without_a_command_the_help_is_shown(capsys):
    assert invoke([]) == 0
    assert "Commands:" in capsys.readouterr().out


def test_the_version_is_the_packages(capsys):
    assert invoke(["--version"]) == 0
    assert capsys.readouterr().out == "lading 0.1.0\n"


@pytest.mark.parametrize(
    "args",
    [
        ["nope"],
        ["plan", "--nope"],
        ["scan"],
        ["scan", "voyages", "--format", "xml"],
        ["scan", "voyages", "--limit", "-1"],
        ["scan", "voyages", "--limit", "many"],
        ["-C"],
    ],
)
def test_a_wrong_command_line_exits_with_3_and_says_how_to_go_on(args, capsys):
    assert invoke(args) == 3
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("error: ")
    assert "\nhint: see `lading" in err


def test_a_wrong_command_line_is_json_when_json_was_asked_for(capsys):
    assert invoke(["plan", "--nope", "--json"]) == 3
    out, err = capsys.readouterr()
    assert err == ""
    error = json.loads(out)["error"]
    assert set(error) == {"kind", "message", "hint", "table", "file"}
    assert error["kind"] == "UsageError"
    assert "--nope" in error["message"]


@pytest.mark.parametrize("command", [["plan"], ["run"], ["status"], ["sources", "x"], ["lookup", "x", "1"]])
def test_without_a_project_every_command_points_to_init(command, tmp_path, capsys):
    assert invoke(["-C", str(tmp_path), *command, "--json"]) == 3
    error = json.loads(capsys.readouterr().out)["error"]
    assert error["kind"] == "ConfigError"
    assert "lading init" in error["hint"]
    assert list(tmp_path.iterdir()) == []


def test_a_config_error_names_every_line_on_stderr(tmp_path, capsys):
    (tmp_path / "lading.yaml").write_text("a: 1\nb: 2\n", encoding="utf-8")
    assert invoke(["-C", str(tmp_path), "plan"]) == 3
    out, err = capsys.readouterr()
    assert out == ""
    assert "lading.yaml:1: a: unknown key" in err
    assert "lading.yaml:2: b: unknown key" in err


@pytest.mark.parametrize("command", [["plan", "ship"], ["run", "ship"], ["scan", "ship"], ["status", "ship"]])
def test_an_unknown_table_lists_the_tables(command, project, capsys):
    assert invoke(["-C", str(project), *command]) == 1
    assert "the tables are: ships, voyages" in capsys.readouterr().err


def test_a_name_never_leads_out_of_the_warehouse(project, capsys):
    (project / "_CURRENT").write_text("{}")
    for name in ("..", "../", "voyages/..", str(project)):
        assert invoke(["-C", str(project), "scan", name]) == 1
        assert "there is no table" in capsys.readouterr().err


def test_a_failure_is_a_sentence_and_a_hint(project, monkeypatch, capsys):
    error = PipelineError("Spark stopped", hint="look at its log", table="voyages", file="a.csv")
    monkeypatch.setattr("lading.plan.plan_tables", raising(error))
    assert invoke(["-C", str(project), "plan"]) == 1
    assert capsys.readouterr().err == "error: voyages: Spark stopped\nhint: look at its log\n"
    assert invoke(["-C", str(project), "plan", "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["error"] == {
        "kind": "PipelineError",
        "message": "Spark stopped",
        "hint": "look at its log",
        "table": "voyages",
        "file": "a.csv",
    }


def test_an_interrupt_says_that_nothing_is_lost(project, monkeypatch, capsys):
    monkeypatch.setattr("lading.plan.plan_tables", raising(KeyboardInterrupt()))
    assert invoke(["-C", str(project), "plan"]) == 130
    assert "nothing is lost" in capsys.readouterr().err
    assert invoke(["-C", str(project), "plan", "--json"]) == 130
    assert json.loads(capsys.readouterr().out)["error"]["kind"] == "Interrupted"


def test_a_bug_leaves_its_traceback_in_the_log(project, monkeypatch, capsys):
    monkeypatch.setattr("lading.plan.plan_tables", raising(ZeroDivisionError("oops")))
    assert invoke(["-C", str(project), "plan"]) == 1
    err = capsys.readouterr().err
    assert "unexpected ZeroDivisionError: oops" in err
    assert "Traceback" not in err
    assert str(project / "logs" / "lading.jsonl") in err
    line = json.loads((project / "logs" / "lading.jsonl").read_text().splitlines()[-1])
    assert (line["event"], line["level"], line["kind"]) == ("exception", "error", "ZeroDivisionError")
    assert "Traceback" in line["traceback"]


def test_a_bug_outside_a_project_shows_its_traceback_and_writes_nothing(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("lading.cli.init.write_starter", raising(ZeroDivisionError("oops")))
    assert invoke(["init", str(tmp_path)]) == 1
    assert "Traceback" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_value_after_two_dashes_is_no_option(project, capsys):
    assert invoke(["-C", str(project), "lookup", "nope", "--", "--json"]) == 1
    assert capsys.readouterr().out == ""


def test_a_negative_key_is_a_key(project, capsys):
    assert invoke(["-C", str(project), "lookup", "voyages", "-5"]) == 1
    assert "nothing is published" in capsys.readouterr().err


def test_import_lading_loads_nothing_heavy():
    code = f"import sys, lading; print([name for name in {HEAVY!r} if name in sys.modules])"
    assert subprocess.check_output([sys.executable, "-c", code], text=True) == "[]\n"


def test_help_and_config_errors_load_nothing_heavy(tmp_path):
    code = (
        "import sys; from lading.cli.main import invoke; "
        f"invoke(['--help']); invoke(['-C', {str(tmp_path)!r}, 'plan']); "
        f"print([name for name in {HEAVY!r} if name in sys.modules])"
    )
    shown = subprocess.check_output([sys.executable, "-c", code], text=True, stderr=subprocess.DEVNULL)
    assert shown.endswith("\n[]\n")


def process_of(body: str) -> subprocess.Popen[str]:
    """The real `main` in a process of its own, with one command that does `body`."""
    code = (
        "import sys, time; from lading.cli import main as m\n"
        "from lading.cli.terminal.command import command as made\n"
        "from lading.cli.terminal.screen import say\n"
        f"def command(ctx): {body}\n"
        "m.app = made('lading', command); sys.argv = ['lading']; m.main()\n"
    )
    command = [sys.executable, "-c", code]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_a_closed_pipe_is_the_end_and_not_an_error():
    """`lading … | head -1`: the reader leaves while there is still much to write."""
    process = process_of("[say('x' * 1000) for _ in range(10000)]")
    assert process.stdout is not None and process.stderr is not None
    process.stdout.readline()
    process.stdout.close()
    err = process.stderr.read()
    process.stderr.close()
    assert (process.wait(60), err) == (0, "")


def test_ctrl_c_ends_the_process_with_130():
    # Whoever starts tests in the background may have told them to ignore it, and children inherit that.
    heed = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); "
    process = process_of(f"{heed}print('waiting', flush=True); time.sleep(60)")
    assert process.stdout is not None
    assert process.stdout.readline() == "waiting\n"
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "nothing is lost" in err


def test_a_narrow_locale_is_no_reason_to_fail(tmp_path):
    folder = tmp_path / "façade"
    shown = lading("init", str(folder), env={**os.environ, "PYTHONIOENCODING": "ascii"})
    assert shown.returncode == 0
    assert "fa\\xe7ade" in shown.stdout


def test_shell_completion_knows_the_commands_and_the_tables(project):
    def complete(words: str) -> str:
        asked = {
            "_LADING_COMPLETE": "bash_complete",
            "COMP_WORDS": words,
            "COMP_CWORD": str(words.count(" ")),
        }
        return lading(env={**os.environ, **asked}, cwd=project).stdout

    assert "lookup" in complete("lading lo")
    assert "voyages" in complete("lading scan vo")
