"""Rows, quarantine, layout and serving: each page is what its command says, page by page."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support.page import Server, Shown, served

from lading.cli.main import invoke
from lading.ui.page import command_line
from lading.ui.pages.quarantine import marked

HOSTILE = "<img src=x onerror=alert(1)>\"'&"


def printed(capsys: pytest.CaptureFixture[str], folder: Path, *args: str) -> str:
    assert invoke(["-C", str(folder), *args]) == 0
    return capsys.readouterr().out


def said(capsys: pytest.CaptureFixture[str], folder: Path, *args: str) -> Any:
    """What a command prints as JSON."""
    return json.loads(printed(capsys, folder, *args, "--json"))


@pytest.fixture
def past(shown: Shown) -> Shown:
    """Two snapshots of voyages: in the second, an edit that brought a wrong row, and rows set aside."""
    for number in range(3):
        shown.put(f"{number}.csv", *((f"ship {n % 7}", n + number, n) for n in range(40)))
    shown.run()
    rows = [(f"ship {n % 7}", n + 1, n) for n in range(40)]
    rows[7] = (HOSTILE.replace('"', ""), 8, 10_000_000)
    shown.put("1.csv", *rows, ("Bad", "x y", 1), ("Worse", 1, f"{HOSTILE}.5".replace('"', "")))
    shown.run()
    return shown


def test_rows_are_those_of_scan_page_by_page(
    past: Shown, server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    for where in ("", "tonnes > 20", "ship = 'ship 3'", "tonnes < 0"):
        options = ["--where", where] if where else []
        text = printed(capsys, past.folder, "scan", "voyages", *options, "--format", "jsonl")
        wanted = [json.loads(line) for line in text.splitlines()]
        query: dict[str, object] = {"table": "voyages", "where": where}
        found: list[Any] = []
        while True:
            page = server.get("/rows.json", **query).json
            found += page["rows"]
            assert len(page["rows"]) <= 50 and page["problem"] is None
            if page["following"] is None:
                break
            query |= {"at": page["following"], "skip": len(found)}
        assert found == wanted
    assert page["command"] == "lading scan voyages --where 'tonnes < 0' --limit 50"


def test_an_older_snapshot_can_be_browsed_and_rows_be_sorted(past: Shown, server: Server) -> None:
    now = server.get("/rows.json", table="voyages", sort="tonnes", down=1).json
    assert now["rows"][0]["tonnes"] == 10_000_000 and now["shown"]["current"] and now["whole"]
    older = now["snapshots"][1]["run_id"]
    then = server.get("/rows.json", table="voyages", sort="tonnes", down=1, ref=older).json
    assert then["rows"][0]["tonnes"] == 39 and not then["shown"]["current"]
    assert then["command"].endswith(f"--ref {older}")
    second = server.get("/rows.json", table="voyages", sort="tonnes", down=1, skip=50).json
    tonnes = [row["tonnes"] for row in now["rows"] + second["rows"]]
    assert tonnes == sorted(tonnes, reverse=True) and len(tonnes) == 100


def test_a_row_is_traced_as_trace_does(
    past: Shown, server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    query = {"table": "voyages", "where": "tonnes > 1000"}
    page = server.get("/rows.json", **query, row=0).json
    traced = page["traced"]
    [row] = said(capsys, past.folder, "trace", "voyages", "--where", "tonnes > 1000")["rows"]
    assert traced["told"] == row
    assert row["file"] == "voyages/1.csv" and row["found"]["line"] == 9
    assert traced["since"] == page["snapshots"][0]["run_id"]
    assert traced["before"] == page["snapshots"][1]["run_id"]
    assert traced["command"].startswith("lading trace voyages --where ")
    untouched = server.get("/rows.json", table="voyages", where="tonnes = 5", row=0).json["traced"]
    assert (untouched["since"], untouched["before"]) == (traced["before"], None)
    assert server.get("/rows.json", **query, row=99).json["traced"] is None


def test_a_wrong_predicate_is_told_beside_the_form(past: Shown, server: Server) -> None:
    for path in ("/rows", "/layout"):
        for where in ("tonnes >", "nope = 1", HOSTILE):
            page = server.get(f"{path}.json", table="voyages", where=where).json
            assert page["problem"]["kind"] == "PredicateError" and page["problem"]["hint"]
            html = server.get(path, table="voyages", where=where)
            assert html.status == 200 and 'aria-invalid="true"' in html.text and "<img" not in html.text
    for query in ({"sort": "nope"}, {"at": "x"}, {"at": "-1.0"}, {"at": "1"}):
        page = server.get("/rows.json", table="voyages", **query).json
        assert page["problem"] is not None and page["rows"] == []
    assert server.get("/rows.json", table="voyages", at="999.999").json["rows"] == []
    assert server.get("/rows", table="voyages", skip="x").status == 400
    assert server.get("/rows", table="voyages", ref="nope").status == 404


def test_quarantine_is_what_its_commands_say(
    past: Shown, server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    page = server.get("/quarantine.json", table="voyages").json
    assert page["quarantine"] == said(capsys, past.folder, "quarantine", "list", "voyages")["quarantine"]
    assert page["rows"] == said(capsys, past.folder, "quarantine", "show", "voyages")["rows"]
    assert page["rows_aside"] == len(page["rows"]) == 2
    assert page["marked"][0] == {"before": '"Bad",', "value": "x y", "after": ",1"}
    html = server.get("/quarantine", table="voyages", file="voyages/1.csv").text
    assert "<mark>x y</mark>" in html and "<img" not in html and "onerror=alert" in html


@pytest.mark.parametrize(
    ("text", "reason", "value"),
    [
        ("a,b c,d", "'b c' is not a bigint", "b c"),
        ("2017,7,17.7x", "'7' fails the check 'range tonnes'", "7"),
        ('{"a": 1, "tonnes": 1}', "'1.0' fails the check 'range tonnes'", "1"),
        ('{"a": "x", "tonnes" :null}', "fails the check 'not_null tonnes'", "null"),
        ('{"a": {"tonnes": 1}, "tonnes": 2}', "fails the check 'range tonnes'", ""),
        ("a,it's,d", '"it\'s" is not a bigint', "it's"),
        ("1,1,1", "'1' is not a date", ""),  # which of them can't be told
        ("a,b", "has 2 fields, but the header has 3", ""),
        ("a,\\n", r"'\\n' is not a bigint", "\\n"),
        ("", "'x' is not a bigint", ""),
        ("'", "'", ""),
        ("x" * 3000, "'y' is no x", ""),
    ],
)
def test_the_value_to_blame_is_marked_where_it_can_be_told(text: str, reason: str, value: str) -> None:
    found = marked(text, reason, "tonnes")
    assert found.value == value
    assert (found.before + found.value + found.after).startswith(text[:2000])


@pytest.mark.parametrize(
    ("options", "suffix", "text", "row"),
    [
        ("format: csv", "csv", 'ship,day,tonnes\n"Fram, 5",5,-05\n', ('"Fram, 5",5,', "-05", "")),
        (
            'format: csv\n    read_options: {quote: "\'", trim: true}',
            "csv",
            "tonnes,ship,day\n' -5 ',a-5,5\n",
            ("' ", "-5", " ',a-5,5"),
        ),
        (
            "format: json",
            "json",
            '{"ship": "-5", "day": 5, "tonnes" : -5}\n',
            ('{"ship": "-5", "day": 5, "tonnes" : ', "-5", "}"),
        ),
    ],
)
def test_the_value_that_fails_a_check_is_marked(
    shown: Shown, server: Server, options: str, suffix: str, text: str, row: tuple[str, str, str]
) -> None:
    config = (shown.folder / "lading.yaml").read_text().replace("**/*.csv", f"*.{suffix}")
    check = "    checks: [{range: {column: tonnes, min: 0}}]\n"
    config = config.replace("    format: csv\n", f"    {options}\n{check}", 1)
    (shown.folder / "lading.yaml").write_text(config)
    (shown.folder / "data" / "voyages" / f"1.{suffix}").write_text(text)
    shown.run("voyages")
    page = server.get("/quarantine.json", table="voyages").json
    assert page["rows"][0]["column"] == "tonnes"
    assert page["rows"][0]["reason"] == f"{row[1]!r} fails the check 'range tonnes'"
    assert tuple(page["marked"][0].values()) == row


def test_what_was_set_aside_is_replayed_once_it_fits(past: Shown, server: Server) -> None:
    assert server.ask("POST", "/quarantine/replay", {}, "table=voyages").status == 401
    before = server.get("/rows.json", table="voyages").json["total"]
    schema = past.folder / "schema" / "voyages.yaml"
    schema.write_text(schema.read_text().replace("name: day, type: bigint", "name: day, type: string"))
    config = past.folder / "lading.yaml"
    config.write_text(config.read_text().replace("    bucket_size: 10\n", ""))
    answer = server.post("/quarantine/replay", table="voyages", file="voyages/1.csv")
    assert answer.status == 200
    assert answer.json["started"] == "lading quarantine replay voyages --file voyages/1.csv"
    server.project.live.wait(60)
    after = server.get("/quarantine.json", table="voyages").json
    assert [row["column"] for row in after["rows"]] == ["tonnes"]
    assert server.get("/rows.json", table="voyages").json["total"] == before + 1


def test_a_read_only_page_replays_nothing(past: Shown) -> None:
    with served(past.folder, read_only=True) as server:
        assert server.post("/quarantine/replay", table="voyages").status == 403
        assert '<form method="post"' not in server.get("/quarantine", table="voyages").text


def test_layout_is_what_its_command_says(
    past: Shown, server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    where = "tonnes > 1000"
    told = said(capsys, past.folder, "layout", "voyages", "--where", where)
    page = server.get("/layout.json", table="voyages", where=where).json
    assert page["told"] == {name: told[name] for name in page["told"]}
    assert page["parts"] == told["listed"]
    assert 0 < told["opened"] < told["parts"]
    assert sorted(bar["part"]["path"] for bar in page["bars"]) == sorted(
        one["path"] for one in told["listed"]
    )
    spans = [bar["part"]["span"] for bar in page["bars"]]
    assert spans == sorted(spans), "they are drawn from left to right"
    lanes: dict[int, float] = {}
    for bar in page["bars"]:
        assert bar["part"]["span"][0] > lanes.get(bar["lane"], -1.0), "parts in one lane never overlap"
        lanes[bar["lane"]] = bar["part"]["span"][1]
    assert len(lanes) == page["lanes"] == told["deepest"]
    text = printed(capsys, past.folder, "layout", "voyages", "--where", where)
    assert f"A scan opens {told['opened']} of {told['parts']} parts." in text and "tonnes is 0 to" in text


def test_many_parts_are_drawn_as_one_outline(
    past: Shown, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lading.ui.pages.layout._DRAWN", 2)
    page = server.get("/layout.json", table="voyages", where="day < 5").json
    assert page["bars"] == [] and page["area"].startswith("M0 100V") and page["area"].endswith("V100Z")
    assert page["area"] != page["area_opened"]
    assert f'd="{page["area"]}"' in server.get("/layout", table="voyages", where="day < 5").text


@pytest.fixture
def keyed(shown: Shown, spark: object) -> Shown:
    """A table that is served by key: its shards are built on Spark."""
    config = shown.folder / "lading.yaml"
    config.write_text(config.read_text() + "    serve: {key: port, shards: 3}\n")
    ports = "".join(f"port{n},{HOSTILE.replace(chr(34), '')}\n" for n in range(30))
    (shown.folder / "data" / "ports" / "ports.csv").write_text(f"port,country\n{ports}")
    shown.run("ports")
    return shown


def test_serving_is_what_shards_and_get_say(
    keyed: Shown, server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    told = said(capsys, keyed.folder, "shards", "ports")
    page = server.get("/serving.json", table="ports").json
    assert page["shards"] == told["shards"] and page["serve"]["keys"] == 30
    assert sum(bar["keys"] for bar in page["bars"]) == 30 and len(page["bars"]) == 3
    for key in ("port7", "nowhere", HOSTILE):
        found = server.get("/serving.json", table="ports", key=key).json["found"]
        assert found["told"] == said(capsys, keyed.folder, "get", "ports", key)
        assert found["routing"].endswith(f"modulo 3 that is {found['told']['shard']}")
        assert int(found["routing"].split()[5].rstrip(";")) % 3 == found["told"]["shard"]
        html = server.get("/serving", table="ports", key=key).text
        assert "<img" not in html and ("Not found" in html) == (key != "port7")


def test_a_table_that_is_not_served_or_was_never_run_says_what_to_do(past: Shown, server: Server) -> None:
    assert "not served by key" in server.get("/serving", table="voyages").text
    config = past.folder / "lading.yaml"
    config.write_text(config.read_text() + '  late: {root: data, path: "*.x", format: csv}\n')
    for path in ("/rows", "/layout", "/serving", "/quarantine"):
        answer = server.get(path, table="late")
        assert answer.status == 200
        assert 'class="empty"' in answer.text
        assert path == "/quarantine" or "lading run late" in answer.text


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["a b"], "'a b'"),
        (["x = 'y'"], "\"x = 'y'\""),
        (["$HOME 'x'"], "'$HOME '\"'\"'x'\"'\"''"),
        (["plain", "--where"], "plain --where"),
    ],
)
def test_a_command_can_be_pasted(words: list[str], text: str) -> None:
    import shlex

    assert command_line(*words) == text
    assert shlex.split(text) == words
