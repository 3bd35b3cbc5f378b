"""Every page says what its command says, escapes whatever it shows, and fails in the command's words."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from support.opened import opened_among
from support.page import TOKEN, Server, Shown, served

from lading.cli.main import invoke
from lading.config.file import load
from lading.snapshots.runs import start
from lading.snapshots.stores.by_url import store_of

HOSTILE = "<img src=x onerror=alert(1)>\"'&.csv"


@pytest.fixture
def past(shown: Shown) -> Shown:
    """Three snapshots of voyages, a row set aside, and work to do."""
    shown.put("a.csv", ("Aurora", 1, 10), ("Coral", 12, 20))
    shown.run()
    shown.put("b.csv", ("Gulden", 3, 30), ("Bad", "x", 1))
    shown.run()
    shown.put("c.csv", ("Halcyon", 25, 40))
    shown.run()
    shown.put("d.csv", ("Fjord", 7, 70))
    (shown.folder / "data" / "voyages" / "a.csv").unlink()
    return shown


def said(capsys: pytest.CaptureFixture[str], folder: Path, *args: str) -> Any:
    """What a command prints as JSON."""
    invoke(["-C", str(folder), *args, "--json"])
    return json.loads(capsys.readouterr().out)


def test_overview_is_what_status_says(
    past: Shown, server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    shown = server.get("/overview.json").json
    assert shown["command"] == "lading status"
    assert shown["tables"] == said(capsys, past.folder, "status")["tables"]
    assert shown["states"] == {"voyages": "pending", "ports": "fresh"}
    assert [one["rows"] for one in shown["rows_over_time"]["voyages"]] == [2, 3, 4]
    assert shown["graph"] is None


def test_plan_is_what_plan_says_and_a_story_is_what_explain_says(
    past: Shown, server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    (told,) = said(capsys, past.folder, "plan", "voyages")["tables"]
    shown = server.get("/plan.json", table="voyages", verdict="all", file="voyages/a.csv").json
    assert shown["plan"] == told
    (answer,) = said(capsys, past.folder, "explain", "voyages/a.csv")["tables"]
    assert shown["story"]["told"] == answer
    assert shown["story"]["command"] == "lading explain voyages/a.csv"


def test_plan_shows_what_is_asked_for(past: Shown, server: Server) -> None:
    def keys(**query: str) -> list[str]:
        shown = server.get("/plan.json", table="voyages", **query).json
        assert shown["matching"] == len(shown["plan"]["files"])
        return [one["key"] for one in shown["plan"]["files"]]

    assert keys() == ["voyages/a.csv", "voyages/d.csv"]
    assert keys(verdict="vanished") == ["voyages/a.csv"]
    assert keys(verdict="all", q="C.CSV") == ["voyages/c.csv"]
    assert keys(verdict="all", q="not read before") == ["voyages/d.csv"]
    assert keys(q="nothing has this") == []


def test_a_plan_is_leafed_through_as_it_was_made(past: Shown, server: Server) -> None:
    stamp = server.get("/plan.json", table="voyages").json["stamp"]
    past.put("e.csv", ("Late", 8, 80))
    again = server.get("/plan.json", table="voyages", plan=stamp).json
    assert [one["key"] for one in again["plan"]["files"]] == ["voyages/a.csv", "voyages/d.csv"]
    anew = server.get("/plan.json", table="voyages").json
    assert [one["key"] for one in anew["plan"]["files"]] == [
        "voyages/a.csv",
        "voyages/d.csv",
        "voyages/e.csv",
    ]


def test_runs_are_what_runs_says(past: Shown, server: Server, capsys: pytest.CaptureFixture[str]) -> None:
    shown = server.get("/runs.json", table="voyages").json
    assert shown["runs"] == said(capsys, past.folder, "runs", "voyages")["runs"]
    assert (shown["total"], shown["pages"]) == (3, 1)


def test_history_is_what_history_says_and_a_comparison_is_what_diff_says(
    past: Shown, server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    shown = server.get("/history.json", table="voyages", before="~2", after="current").json
    assert shown["snapshots"] == said(capsys, past.folder, "history", "voyages")["snapshots"]
    assert shown["difference"]["told"] == said(capsys, past.folder, "diff", "voyages", "~2", "current")
    oldest, newest = shown["snapshots"][2]["run_id"], shown["snapshots"][0]["run_id"]
    assert shown["difference"]["command"] == f"lading diff voyages {oldest} {newest}"
    assert [one["run_id"] for one in shown["line"]] == [one["run_id"] for one in shown["snapshots"]][::-1]


def test_rollback_says_what_readers_will_see_and_then_they_see_it(past: Shown, server: Server) -> None:
    def current() -> tuple[str, bool]:
        found = store_of(load(past.folder), "voyages").load_current()
        assert found is not None
        return found.run_id, found.held

    newest, _, oldest = (one["run_id"] for one in server.get("/history.json").json["snapshots"])
    asked = server.get("/history.json", table="voyages", rollback=oldest).json["confirm"]
    assert asked["command"] == f"lading rollback voyages --run-id {oldest}"
    assert "They will see sequence 1, 2 rows" in asked["words"][1]
    assert asked["words"][2] == "That is 2 rows fewer; the rows of 2 files differ."
    assert current() == (newest, False)  # asking moves nothing

    moved = server.post("/history/rollback", table="voyages", run_id=oldest)
    assert moved.status == 200
    assert (moved.json["run_id"], moved.json["before"], moved.json["held"]) == (oldest, newest, True)
    assert current() == (oldest, True)

    asked = server.get("/history.json", table="voyages", release="1").json["confirm"]
    assert f"run {newest}" in asked["words"][1]
    assert server.post("/history/release", table="voyages").json["run_id"] == newest
    assert current() == (newest, False)
    assert server.post("/history/release", table="voyages").status == 409  # it is not held


def test_a_run_that_is_started_here_is_a_run_and_is_logged(past: Shown, server: Server) -> None:
    before = server.get("/runs.json", table="voyages").json["total"]
    started = server.post("/runs/start", table="voyages", allow_vanish="1")
    assert started.json == {"started": "lading run voyages --allow-vanish"}
    server.project.live.wait(60)
    shown = server.get("/runs.json", table="voyages").json
    assert shown["total"] == before + 1
    newest = shown["runs"][0]["run_id"]
    story = server.get("/runs.json", table="voyages", run=newest).json["run"]
    assert [one["name"] for one in story["phases"]][:3] == ["discover", "plan", "prepare"]
    assert sum(one["share"] for one in story["phases"]) == pytest.approx(1)
    assert (story["report"]["rows_added"], story["report"]["rows_removed"]) == (1, 2)
    assert [line["event"] for line in story["lines"]][:: len(story["lines"]) - 1] == [
        "run started",
        "run finished",
    ]


def test_a_run_that_fails_shows_its_error_and_what_to_do(past: Shown, server: Server) -> None:
    (past.folder / "data" / "voyages" / "e.csv").write_bytes(b"ship,day,tonnes\n\xff\xfe\x00,1,2\n")
    config = (past.folder / "lading.yaml").read_text().replace("    on_bad: quarantine\n", "")
    (past.folder / "lading.yaml").write_text(config)
    server.post("/runs/start", table="voyages")
    server.project.live.wait(60)
    newest = server.get("/runs.json", table="voyages").json["runs"][0]
    assert newest["state"] == "failed"
    error = server.get("/runs.json", table="voyages", run=newest["run_id"]).json["run"]["error"]
    assert newest["error"] == f"{error['kind']}: {error['message']}\n  hint: {error['hint']}"
    assert error["hint"]
    page = server.get("/runs", table="voyages", run=newest["run_id"]).text
    assert "<strong>Hint:</strong>" in page


def test_no_get_changes_anything_and_no_post_without_the_key_does(past: Shown, server: Server) -> None:
    oldest = server.get("/history.json").json["snapshots"][-1]["run_id"]
    cookie = {"Cookie": f"lading_{server.port}={TOKEN}", "Content-Type": "application/x-www-form-urlencoded"}
    origin = {"Origin": server.origin}
    body = f"table=voyages&run_id={oldest}"
    assert server.ask("GET", f"/history/rollback?{body}", cookie).status == 405
    assert server.ask("POST", "/history/rollback", {**cookie, **origin}, body).status == 400
    assert server.ask("POST", "/history/rollback", {**cookie, **origin}, f"{body}&key=wrong").status == 400
    assert server.ask("POST", "/history/rollback", {**cookie, "Origin": "null"}, body).status == 403
    assert server.ask("POST", "/history/rollback", {}, body).status == 401
    assert not server.get("/history.json").json["held"]


def test_a_read_only_page_changes_nothing_and_offers_nothing(past: Shown) -> None:
    with served(past.folder, read_only=True) as server:
        oldest = server.get("/history.json").json["snapshots"][-1]["run_id"]
        assert server.post("/history/rollback", table="voyages", run_id=oldest).status == 403
        assert server.post("/runs/start").status == 403
        assert not server.get("/history.json").json["held"]
        for path in ("/runs", f"/history?table=voyages&rollback={oldest}"):
            assert 'method="post"' not in server.get(path).text


def test_names_and_values_are_shown_as_they_are_and_never_as_markup(shown: Shown, server: Server) -> None:
    path = shown.put(HOSTILE, ("<script>alert(1)</script>", "x</td>", 1))
    shown.run()
    newest = server.get("/history.json").json["snapshots"]
    for target in (
        "/",
        "/plan?verdict=all&file=voyages/" + "%3Cimg%20src=x%20onerror=alert(1)%3E%22'%26.csv",
        "/runs",
        f"/history?before={newest[0]['run_id']}&after=current",
        "/plan?q=%3Cscript%3Ealert(1)%3C/script%3E",
        "/plan?table=%3Cscript%3Ealert(1)%3C/script%3E",
        "/%3Cscript%3Ealert(1)%3C/script%3E",
    ):
        text = server.get(target).text
        assert "<img src=x" not in text
        assert "<script>" not in text
    assert path.name == HOSTILE
    assert "&lt;img src=x onerror=alert(1)&gt;&#34;&#39;&amp;.csv" in server.get("/plan?verdict=all").text


def test_errors_have_the_words_of_the_commands(shown: Shown, server: Server) -> None:
    answer = server.get("/plan", table="voyage")
    assert answer.status == 404
    assert "there is no table &#39;voyage&#39;" in answer.text
    assert "the tables are: voyages, ports" in answer.text
    assert server.get("/plan.json", table="voyage").json["error"]["kind"] == "NotFound"
    assert server.get("/nowhere").status == 404
    assert server.get("/plan", page="x").status == 400

    (shown.folder / "lading.yaml").write_text("tables:\n  voyages: {pth: x}\n")
    for path in ("/", "/plan", "/runs", "/history"):
        answer = server.get(path)
        assert answer.status == 400
        assert "pth" in answer.text
        assert "lading.yaml" in answer.text


def test_a_table_that_was_never_run_has_pages_that_say_so(shown: Shown, server: Server) -> None:
    assert "never run" in server.get("/").text
    assert "No runs yet" in server.get("/runs").text
    assert "No snapshots yet" in server.get("/history").text
    assert "no files" in server.get("/plan").text


def test_ten_thousand_runs_cost_what_fifty_do(shown: Shown, server: Server) -> None:
    place = load(shown.folder).place("voyages")
    with start(place, "20240101-000000-00000000", tables=["voyages"]) as record:
        template = record.path.read_bytes()
    folder = record.path.parent.parent
    for number in range(1, 10_000):
        _copy_record(folder, number, template)
    records = sorted(folder.glob("*/run.yaml"))

    def read(page: int) -> set[Path]:
        with opened_among(records) as opened:
            shown = server.get("/runs.json", table="voyages", page=page).json
        assert (shown["total"], len(shown["runs"])) == (10_000, 50)
        return opened

    assert read(page=1) == {*records[-50:]}
    assert read(page=200) == {*records[:50]}


def _copy_record(folder: Path, number: int, template: bytes) -> None:
    day = f"2024-01-01T{number // 3600:02d}:{number // 60 % 60:02d}:{number % 60:02d}"
    one = folder / f"{day.replace(':', '-')}.000000Z_run_id=run-{number:08d}_{number:08x}"
    os.mkdir(one)
    (one / "run.yaml").write_bytes(template)
