"""The page as people use it: in chromium, by its links, buttons and keys."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

import axe_core_python
import pytest
from selenium.webdriver.common.keys import Keys
from support.browser import Browser
from support.opened import opened_among
from support.page import Answer, Server, Shown, served

from lading.config.file import load
from lading.snapshots.stores.by_url import store_of
from lading.ui.app import PAGES

AXE = (Path(axe_core_python.__file__).parent / "axe.min.js").read_text(encoding="utf-8")
HOSTILE = "<img src=x onerror=alert(1)>\"'&.csv"


@pytest.fixture
def past(shown: Shown) -> Shown:
    """Snapshots of voyages, hostile names and values, a row set aside, and work to do."""
    shown.put("a.csv", ("Aurora", 1, 10), ("Coral", 12, 20))
    shown.run()
    shown.put(HOSTILE, ("<script>document.title='owned'</script>", 3, 30), ("Bad", "<b>x</b>", 1))
    shown.run()
    shown.put("c.csv", ("Halcyon", 25, 40))
    shown.run()
    shown.put("d.csv", ("Fjord", 7, 70))
    return shown


def addresses(server: Server) -> list[str]:
    """Every page, and each of its states that can be led to."""
    newest, *_, oldest = (one["run_id"] for one in server.get("/history.json").json["snapshots"])
    return [
        *(page.path for page in PAGES),
        "/plan?verdict=all&file=voyages/d.csv",
        "/plan?q=nothing+has+this",
        f"/runs?run={newest}",
        f"/history?before={oldest}&after={newest}",
        f"/history?rollback={oldest}",
        "/plan?table=ports",
        "/rows?table=voyages&row=1",
        "/rows?table=voyages&where=tonnes+%3E+1&sort=ship&down=1",
        "/rows?table=voyages&where=%3Cimg%3E",
        "/rows?table=voyages&where=day+%3C+0",
        "/quarantine?table=ports",
        "/layout?table=voyages&where=day+%3C+5",
        "/layout?table=voyages&where=%3Cimg%3E",
        "/history?table=ports",
    ]


def test_no_page_complains_or_takes_a_name_for_markup(past: Shown, server: Server, chromium: Browser) -> None:
    chromium.open(server)
    chromium.complaints()
    for path in addresses(server):
        chromium.go(server, path)
        chromium.wait(lambda: chromium.script("return document.readyState") == "complete")
        assert chromium.complaints() == [], path
        assert "owned" not in chromium.driver.title
        assert not chromium.all("main img"), path
        assert chromium.one("h1").text
        assert chromium.one(".twin code").text.startswith("lading ")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_no_page_has_a_serious_barrier(past: Shown, server: Server, chromium: Browser, scheme: str) -> None:
    chromium.open(server)
    chromium.colours(scheme)
    found: list[str] = []
    for path in [*addresses(server), "/plan?table=nowhere"]:
        chromium.go(server, path)
        chromium.script(AXE)
        result = chromium.driver.execute_async_script(
            "const done = arguments[arguments.length - 1]; axe.run(document).then(done);"
        )
        found += [
            f"{path}: {one['id']}: {node['html'][:200]} {node['any'][0]['message'] if node['any'] else ''}"
            for one in result["violations"]
            if one["impact"] in ("serious", "critical")
            for node in one["nodes"][:2]
        ]
    chromium.colours("light")
    assert found == []


def test_every_page_fits_a_phone(past: Shown, server: Server, chromium: Browser) -> None:
    chromium.open(server)
    chromium.width(380)
    try:
        for path in addresses(server):
            chromium.go(server, path)
            wide = chromium.script("return document.documentElement.scrollWidth")
            assert wide <= 380, path
    finally:
        chromium.width(1280)


def test_a_run_is_watched_as_it_happens(past: Shown, server: Server, chromium: Browser) -> None:
    chromium.open(server, "/runs?table=voyages")
    runs = len(chromium.all("#runs tbody tr"))
    chromium.script(
        "window.seen = []; document.addEventListener('lading', (e) => window.seen.push(e.detail.event + ' ' "
        "+ (e.detail.phase || '')));"
    )
    chromium.script(
        # The form is sent as it is, without leaving the page: what happens is seen where it was asked for.
        "const form = document.querySelector('form[action=\"/runs/start\"]');"
        "const body = new URLSearchParams(new FormData(form));"
        "fetch(form.action, {method: 'POST', body, redirect: 'manual'});"
    )
    chromium.wait(lambda: chromium.one("#outcome").text == "Done.")
    chromium.wait(lambda: len(chromium.all("#runs tbody tr")) == runs + 1)
    seen = chromium.script("return window.seen")
    assert seen[0] == "run started "
    assert "phase ingest" in seen
    assert "phase publish" in seen
    assert seen[-1] == "run finished "
    assert chromium.one("#steps .name").text == "voyages"
    assert chromium.one("#live").text == "Run finished"
    assert chromium.complaints() == []


def test_a_run_of_another_process_is_heard_of(past: Shown, server: Server, chromium: Browser) -> None:
    import subprocess
    import sys

    chromium.open(server, "/runs?table=voyages")
    runs = len(chromium.all("#runs tbody tr"))
    chromium.wait(lambda: chromium.script("return document.readyState") == "complete")
    time.sleep(1)  # until the stream of events is open
    command = [
        sys.executable,
        "-c",
        "from lading.cli.main import main; main()",
        "-C",
        str(past.folder),
        "run",
    ]
    subprocess.run(command, check=True, capture_output=True)
    chromium.wait(lambda: len(chromium.all("#runs tbody tr")) == runs + 1)
    assert chromium.one("#outcome").text == "Done."


def test_a_run_is_started_with_a_click(past: Shown, server: Server, chromium: Browser) -> None:
    chromium.open(server, "/runs?table=voyages")
    chromium.one("details.menu summary").click()
    chromium.wait(lambda: chromium.button("Start the run").is_displayed())
    chromium.button("Start the run").click()
    chromium.wait(lambda: "Started: lading run voyages" in chromium.text())
    server.project.live.wait(60)
    chromium.go(server, "/?")
    chromium.wait(lambda: chromium.one("#table-voyages .mark").text == "up to date")


def test_readers_are_rolled_back_and_released(past: Shown, server: Server, chromium: Browser) -> None:
    def current() -> tuple[int, bool]:
        found = store_of(load(past.folder), "voyages").load_current()
        assert found is not None
        return found.sequence, found.held

    chromium.open(server, "/history?table=voyages")
    rows = chromium.all("form.compare tbody tr[id]")
    rows[-1].find_element("link text", "Roll back …").click()
    chromium.wait(lambda: "They will see sequence 1, 2 rows" in chromium.one("#confirm").text)
    assert current() == (3, False)
    chromium.button("Roll back").click()
    chromium.wait(lambda: "now see run" in chromium.one(".notice").text)
    assert current() == (1, True)
    chromium.link("Release …").click()
    chromium.wait(lambda: "Release the hold?" in chromium.one("#confirm").text)
    chromium.button("Release").click()
    chromium.wait(lambda: "sequence 3" in chromium.one(".notice").text)
    assert current() == (3, False)
    assert chromium.complaints() == []


def test_four_clicks_lead_from_a_wrong_row_to_its_cause_and_back(
    past: Shown, server: Server, chromium: Browser
) -> None:
    past.put("a.csv", ("Aurora", 1, 10), ("Coral", 12, 99_999_999))
    past.run("voyages")
    newest, before = (one["run_id"] for one in server.get("/history.json").json["snapshots"][:2])
    chromium.open(server, "/rows?table=voyages&where=tonnes+%3E+1000")
    chromium.link("trace").click()  # 1: where is it from?
    chromium.wait(lambda: "voyages/a.csv, line 3" in chromium.one("#trace").text)
    assert chromium.one("#trace tr.chosen code").text == '"Coral",12,99999999'
    chromium.link("What changed with it").click()  # 2: what brought it?
    chromium.wait(lambda: "voyages/a.csv" in chromium.one("#difference").text)
    assert newest in chromium.one("#difference").text
    chromium.one(f"#run-{before}").find_element("link text", "Roll back …").click()  # 3
    chromium.wait(lambda: "They will see sequence" in chromium.one("#confirm").text)
    chromium.button("Roll back").click()  # 4
    chromium.wait(lambda: f"now see run {before}" in chromium.one(".notice").text)
    chromium.go(server, "/rows?table=voyages&where=tonnes+%3E+1000")
    chromium.wait(lambda: "No row matches" in chromium.text())
    assert chromium.complaints() == []


def test_two_snapshots_are_compared(past: Shown, server: Server, chromium: Browser) -> None:
    chromium.open(server, "/history?table=voyages")
    chromium.all("input[name=before]")[-1].click()
    chromium.button("Compare").click()
    chromium.wait(lambda: "Rows: 2 → 4 (+2)" in chromium.one("#difference").text)
    assert HOSTILE in chromium.one("#difference").text


def test_a_file_tells_its_story_and_is_found_by_typing(
    past: Shown, server: Server, chromium: Browser
) -> None:
    chromium.open(server, "/plan?table=voyages&verdict=all")
    chromium.one("#q").send_keys("onerror")
    chromium.wait(lambda: [one.text for one in chromium.all("#files tbody th")] == [f"voyages/{HOSTILE}"])
    assert "q=onerror" in chromium.driver.current_url  # so that it can be kept and sent
    chromium.link(f"voyages/{HOSTILE}").click()
    chromium.wait(lambda: "The next run leaves it alone." in chromium.one("#story").text)
    chromium.wait(lambda: chromium.script("return document.activeElement.id") == "story")
    assert chromium.complaints() == []


def test_the_keyboard_leads_everywhere(past: Shown, server: Server, chromium: Browser) -> None:
    chromium.open(server, "/plan?table=voyages")
    body = chromium.one("body")
    body.send_keys(Keys.TAB)
    assert chromium.script("return document.activeElement.textContent") == "Skip to content"
    chromium.driver.switch_to.active_element.send_keys(Keys.ENTER)
    assert chromium.script("return document.activeElement.id") == "main"
    reached = set()
    for _ in range(14):
        chromium.driver.switch_to.active_element.send_keys(Keys.TAB)
        reached.add(chromium.script("return document.activeElement.tagName + document.activeElement.id"))
    assert {"SELECTpick-table", "INPUTq", "SELECTverdict", "BUTTON", "A"} <= reached


def test_a_page_without_the_key_says_how_to_get_in(server: Server, chromium: Browser) -> None:
    chromium.driver.delete_all_cookies()
    chromium.go(server, "/plan")
    assert "lading ui" in chromium.one("main").text
    chromium.complaints()  # the browser notes that it was refused


def test_a_hundred_thousand_files_stay_quick(tmp_path: Path, chromium: Browser) -> None:
    shown = Shown(tmp_path / "many")
    for folder in range(100):
        first = shown.put(f"{folder:02d}/000.csv", ("Aurora", 1, 10))
        for number in range(1, 1000):  # links are made in a fifth of the time
            os.link(first, f"{first.parent}/{number:03d}.csv")
    with served(shown.folder) as server:
        chromium.open(server)
        chromium.wait(lambda: "100,000 new" in chromium.one("#table-voyages").text)
        assert _listed(server, "/")[0] == set()
        chromium.go(server, "/plan?table=voyages")
        assert "100,000 files" in chromium.one("#files caption").text
        assert len(chromium.all("#files tbody tr")) == 100
        listed, answer = _listed(server, "/plan.json")
        assert len(listed) == 100
        stamp = answer.json["stamp"]
        assert _listed(server, "/plan", plan=stamp, page=900)[0] == set()
        assert _listed(server, "/plan", plan=stamp, verdict="all", q="77/123")[0] == set()
        chromium.link("Next").click()
        chromium.wait(lambda: "Page 2 of 1,000" in chromium.one("#files .pager").text)
        chromium.one("#q").send_keys("77/123")
        chromium.wait(lambda: [one.text for one in chromium.all("#files tbody th")] == ["voyages/77/123.csv"])
        assert chromium.script("return document.getElementsByTagName('*').length") < 5_000
        assert chromium.complaints() == []


def _listed(server: Server, path: str, **query: object) -> tuple[set[Path], Answer]:
    """The folders of source files that were listed for a page, and the page."""
    folders = (server.project.folder / "data" / "voyages").iterdir()
    with opened_among(folders) as opened:
        answer = server.get(path, table="voyages", **query)
    assert answer.status == 200
    return opened, answer


def test_two_who_look_at_once_see_the_same(past: Shown, server: Server) -> None:
    answers: list[int] = []
    asking = [
        threading.Thread(target=lambda path=path: answers.append(server.get(path).status))
        for path in ("/", "/plan", "/runs", "/history") * 3
    ]
    for one in asking:
        one.start()
    for one in asking:
        one.join()
    assert answers == [200] * 12
