"""lading ui: the address that it prints, and how it ends."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from lading.cli.main import invoke

COMMAND = [sys.executable, "-c", "from lading.cli.main import main; main()"]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "data").mkdir()
    (tmp_path / "lading.yaml").write_text('tables:\n  ships:\n    path: "data/*.csv"\n    format: csv\n')
    return tmp_path


@contextmanager
def started(project: Path, *options: str) -> Iterator[subprocess.Popen[str]]:
    command = [*COMMAND, "-C", str(project), "ui", "--port", "0", *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
        try:
            yield running
        finally:
            running.kill()


def asked(told: dict[str, Any], path: str) -> Any:
    request = urllib.request.Request(
        f"http://127.0.0.1:{told['port']}{path}", headers={"Authorization": f"Bearer {told['token']}"}
    )
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.load(answer)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_prints_its_address_and_ends_quietly(project: Path, number: signal.Signals) -> None:
    with started(project, "--json", "--read-only") as running:
        assert running.stdout is not None
        told = json.loads(running.stdout.readline())
        assert told["url"] == f"http://127.0.0.1:{told['port']}/?token={told['token']}"
        assert told["read_only"] is True
        assert asked(told, "/overview.json")["tables"][0]["table"] == "ships"
        # A stream that is open must not keep it.
        stream = socket.create_connection(("127.0.0.1", told["port"]))
        lines = ("GET /events HTTP/1.1", "Host: 127.0.0.1", f"Authorization: Bearer {told['token']}", "", "")
        stream.sendall("\r\n".join(lines).encode())
        assert stream.recv(15) == b"HTTP/1.1 200 OK"
        running.send_signal(number)
        out, err = running.communicate(timeout=15)  # less than requests are given
        stream.close()
        assert running.returncode == 0
        assert (out, err) == ("", "")


def test_each_start_has_another_token(project: Path) -> None:
    tokens = set()
    for _ in range(2):
        with started(project, "--json") as running:
            assert running.stdout is not None
            tokens.add(json.loads(running.stdout.readline())["token"])
    assert len(tokens) == 2
    assert all(len(one) >= 32 for one in tokens)


def test_people_get_an_address_to_click_on(project: Path) -> None:
    with started(project, "--no-browser") as running:
        assert running.stdout is not None
        assert f"{project.name} is shown at http://127.0.0.1:" in running.stdout.readline()


def test_a_port_that_is_taken_is_named(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert invoke(["-C", str(project), "ui", "--port", str(port), "--no-browser"]) == 3
    said = capsys.readouterr().err
    assert f"--port {port}: another program listens there" in said
    assert "--port 0" in said
    assert invoke(["-C", str(project), "ui", "--port", "70000"]) == 3
    assert "is no port" in capsys.readouterr().err


def test_without_the_extra_it_says_what_to_install(
    project: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("starlette", "uvicorn"):
        monkeypatch.setitem(sys.modules, name, None)
    assert invoke(["-C", str(project), "ui"]) == 3
    said = capsys.readouterr().err
    assert "lading ui needs starlette, uvicorn" in said
    assert "pip install 'lading[ui]'" in said


def test_other_commands_load_nothing_of_it() -> None:
    code = (
        "import sys; from lading.cli.main import invoke; invoke(['--version']); invoke(['ui', '--help']);"
        "print([name for name in ('starlette', 'uvicorn', 'jinja2', 'lading.ui') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"
