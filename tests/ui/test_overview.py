"""The overview's own decisions: a table's state in one word, and the graph of tables made of tables."""

from __future__ import annotations

import threading
import time
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from support.page import TOKEN, Server, Shown

from lading.config.derived import Derived, Input
from lading.config.file import load
from lading.config.project import Config
from lading.ingest.look import look
from lading.model import SnapshotRef
from lading.ui.looks import Look, Looks
from lading.ui.pages.overview import graph, state_of
from lading.upkeep.status import MadeOf, TableStatus

SEEN = SnapshotRef("ref", "run-1", datetime(2024, 3, 1, tzinfo=UTC), 1)
GOOD = TableStatus("voyages", current=SEEN, last_run={"state": "succeeded"}, pending={})


@pytest.mark.parametrize(
    ("changed", "state"),
    [
        ({}, "fresh"),
        ({"pending": {"new": 1}}, "pending"),
        ({"inputs": (MadeOf("ports", 1, 2, True),)}, "pending"),
        ({"inputs": (MadeOf("ports", 2, 2, False),)}, "fresh"),
        ({"inputs": (MadeOf("ports", 2, 2, False, has_work=True),)}, "pending"),
        ({"pending": None}, "unknown"),
        ({"current": replace(SEEN, held=True), "pending": {"new": 1}}, "held"),
        ({"last_run": {"state": "failed"}, "pending": {"new": 1}}, "failed"),
        ({"last_run": {"state": "dead"}}, "failed"),
        ({"refused": ("too few rows",), "last_run": {"state": "failed"}}, "refused"),
        ({"current": None}, "empty"),
    ],
)
def test_the_worst_that_can_be_said_is_said(changed: dict[str, Any], state: str) -> None:
    assert state_of(replace(GOOD, **changed)) == state


def test_a_table_stands_right_of_all_that_it_is_made_of() -> None:
    def made_of(*names: str, elsewhere: str | None = None) -> Derived:
        inputs = [Input(name) for name in names]
        return Derived((*inputs, *([Input(elsewhere, path="/elsewhere")] if elsewhere else [])))

    tables = {
        "voyages": None,
        "ports": None,
        "tonnage": made_of("voyages", "ports"),
        "yearly": made_of("tonnage", "ports", elsewhere="rates"),
    }
    behind = TableStatus("tonnage", inputs=(MadeOf("voyages", 1, 2, True), MadeOf("ports", 1, 1, False)))
    found = graph(tables, [behind], {"tonnage": "pending", "voyages": "fresh"})
    assert found is not None
    at = {node.name: (node.x, node.y) for node in found.nodes}
    assert set(at) == {"voyages", "ports", "tonnage", "yearly", "rates"}
    for edge in found.edges:
        assert at[edge.made_of][0] < at[edge.made][0]
        assert edge.behind == ((edge.made_of, edge.made) == ("voyages", "tonnage"))
    assert len(set(at.values())) == 5  # none upon another
    assert {node.name: node.state for node in found.nodes}["rates"] == "elsewhere"
    assert all(0 <= x <= found.width - 168 and 0 <= y <= found.height - 44 for x, y in at.values())
    assert graph({"voyages": None}, [], {}) is None


def test_a_chain_is_shown_and_its_slots_tell_their_story(shown: Shown, server: Server) -> None:
    config = (shown.folder / "lading.yaml").read_text()
    query = "select country, count(*) as n from ports group by 1"
    derived = f'  harbours:\n    from: {{ports: {{by: country}}}}\n    slots: 8\n    sql: "{query}"\n'
    (shown.folder / "lading.yaml").write_text(config + derived)
    shown.run("ports")
    page = server.get("/").text
    assert "Which table is made of which" in page
    assert "harbours is made of ports, which has moved on" in page
    told = server.get("/plan.json", table="harbours").json
    assert told["what"] == "slot"
    key = told["plan"]["files"][0]["key"]
    story = server.get("/plan.json", table="harbours", file=key).json["story"]
    assert story["command"] == f"lading explain harbours {key}"
    assert story["consequence"] == "The next run evaluates it."
    assert story["told"]["verdict"] == "new"
    assert "The next run evaluates it." in server.get("/plan", table="harbours", file=key).text


def test_the_page_is_there_at_once_and_a_look_at_the_files_follows(
    shown: Shown, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked: list[str] = []

    def counted(config: Config, name: str, **more: Any) -> Any:
        looked.append(name)
        return look(config, name, **more)

    monkeypatch.setattr("lading.upkeep.status.look", counted)
    shown.put("one.csv", ("Astrid", 1, 900))
    page = server.get("/").text
    assert "Looking at the files…" in page and 'hx-get="/?now"' in page
    assert looked == []
    asked = {"Authorization": f"Bearer {TOKEN}", "HX-Request": "true"}
    later = server.ask("GET", "/?now", asked).text
    assert "1 new" in later and "hx-get" not in later and "looking" not in later
    assert looked == ["voyages", "ports"]
    page = server.get("/").text
    assert "1 new" in page and "looking again" in page, "what the last look saw, for as long as nothing moved"
    assert looked == ["voyages", "ports"]
    assert server.get("/overview.json").json["states"]["voyages"] == "pending"
    assert server.get("/overview.json").json["is_last"] is False, "a script is told of the files as they are"
    assert len(looked) == 6
    shown.run()
    page = server.get("/").text
    assert "1 new" not in page and "Looking at the files…" in page
    assert "Looking" not in server.get("/", now="").text, "without scripts"
    assert "up to date" in server.get("/").text
    with open(shown.folder / "lading.yaml", "a") as config:
        config.write("    on_bad: quarantine\n")
    assert "Looking at the files…" in server.get("/").text


def test_who_comes_while_somebody_looks_gets_no_look_that_began_before(shown: Shown) -> None:
    looks, config = Looks(), load(shown.folder)
    first, again = looks.new(config), looks.new(config)
    assert again is not first
    found: list[Look] = []
    with looks._looking:
        waiting = [threading.Thread(target=lambda: found.append(looks.new(config))) for _ in range(3)]
        for one in waiting:
            one.start()
        time.sleep(0.2)
    for one in waiting:
        one.join()
    assert len({id(one) for one in found}) == 1 and found[0] is not again


def test_a_table_that_the_config_dropped_is_shown_and_left_alone(shown: Shown, server: Server) -> None:
    shown.run("ports")
    config = (shown.folder / "lading.yaml").read_text()
    (shown.folder / "lading.yaml").write_text(config[: config.index("  ports:")])
    page = server.get("/").text
    assert "not in lading.yaml: left alone" in page
    assert "table=ports" not in page
