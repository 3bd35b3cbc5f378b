"""What is told while a run is at work: from this process, and from others by their log."""

from __future__ import annotations

import http.client
import json
import os
import threading
import time
from collections.abc import Iterator
from typing import Any

from support.page import TOKEN, Server, Shown

from lading.ui.live import Others


def events(server: Server, path: str = "/events", last: str | None = None) -> Iterator[dict[str, Any]]:
    """As a browser's EventSource hears them; `last`: it has lost the connection after that one."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
    known = {"Authorization": f"Bearer {TOKEN}"} | ({"Last-Event-ID": last} if last is not None else {})
    connection.request("GET", path, headers=known)
    answer = connection.getresponse()
    assert answer.headers["content-type"].startswith("text/event-stream")
    until = time.monotonic() + 60
    try:
        while line := answer.readline():
            assert time.monotonic() < until, "a run has told nothing of its end for a minute"
            if line.startswith(b"data: "):
                yield json.loads(line[6:])
    finally:
        connection.close()


def heard(server: Server, path: str = "/events", last: str | None = None) -> list[dict[str, Any]]:
    """All events until a run ends."""
    found = []
    for event in events(server, path, last):
        found.append(event)
        if event["event"] in ("run finished", "run failed"):
            break
    return found


def test_a_run_tells_its_phases_in_order_and_its_report(shown: Shown, server: Server) -> None:
    shown.put("a.csv", ("Aurora", 1, 10))
    told: list[dict[str, Any]] = []
    listening = threading.Thread(target=lambda: told.extend(heard(server)))
    listening.start()
    server.post("/runs/start", table="voyages")
    listening.join(60)
    assert told[0]["event"] == "run started"
    phases = [one["phase"] for one in told if one["event"] == "phase"]
    assert phases[0] == "discover"
    assert phases[-1] == "done"
    assert phases.index("ingest") < phases.index("commit") < phases.index("publish")
    assert told[-1]["tables"][0]["rows_added"] == 1


def test_who_comes_late_or_was_away_misses_nothing(shown: Shown, server: Server) -> None:
    shown.put("a.csv", ("Aurora", 1, 10))
    seen = server.project.live.seen  # as a page has it that was made before
    server.post("/runs/start", table="voyages")
    server.project.live.wait(60)
    told = heard(server, f"/events?seen={seen}")
    assert told[0]["event"] == "run started"
    again = heard(server, f"/events?seen={seen}", last=str(seen + 3))
    assert again == told[3:]
    assert f"/events?seen={seen + len(told)}" in server.get("/").text


def test_one_run_at_a_time_is_started_here(shown: Shown, server: Server) -> None:
    for number in range(400):
        shown.put(f"{number}.csv", ("Aurora", number, 10))
    answers = [server.post("/runs/start") for _ in range(2)]
    server.project.live.wait(60)
    assert [one.status for one in answers[:2]] == [200, 409]
    assert "still at work" in answers[1].text
    assert server.post("/runs/start").status == 200


def test_a_run_that_cannot_begin_says_why(shown: Shown, server: Server) -> None:
    told: list[dict[str, Any]] = []
    listening = threading.Thread(target=lambda: told.extend(heard(server)))
    listening.start()
    (shown.folder / "data").rename(shown.folder / "elsewhere")
    server.post("/runs/start", table="voyages")
    listening.join(60)
    errors = [one["error"] for one in (*told, *told[-1].get("tables", ())) if "error" in one]
    assert errors
    assert "data" in errors[0]["message"]
    assert errors[0]["hint"]


def test_the_log_of_other_processes_is_heard_and_ones_own_is_not(shown: Shown) -> None:
    log = shown.folder / "logs" / "lading.jsonl"
    log.parent.mkdir()
    log.write_text('{"event": "phase", "pid": 1, "table": "old", "phase": "plan"}\n')
    others = Others(log)
    assert others.new() == []  # what was before is no news
    lines = [
        {"event": "run started", "pid": 1, "tables": ["voyages"]},
        {"event": "phase", "pid": 1, "table": "voyages", "phase": "plan"},
        {"event": "phase", "pid": os.getpid(), "table": "voyages", "phase": "ingest"},
        {"event": "watch: run finished", "pid": 1, "table": "voyages"},
        {"event": "exception", "pid": 1},
    ]
    text = "\n".join(json.dumps(one) for one in lines) + "\n"
    with open(log, "a") as file:
        file.write(text[:-20])
    first = others.new()
    with open(log, "a") as file:
        file.write(text[-20:])
    told = [*first, *others.new()]
    assert [(one.kind, one.table) for one in told] == [
        ("run started", None),
        ("phase", "voyages"),
        ("run finished", "voyages"),
    ]
    log.write_text("")  # somebody clears it
    assert others.new() == []
    log.write_text(json.dumps(lines[1]) + "\n")
    assert [one.kind for one in others.new()] == ["phase"]


def test_streams_end_with_the_server(server: Server) -> None:
    stream = events(server)
    ended = threading.Event()

    def listen() -> None:
        list(stream)
        ended.set()

    threading.Thread(target=listen, daemon=True).start()
    server.project.live.close()
    assert ended.wait(10)
