"""Tables made of tables in a run: order, what stops them, what they cost, and what they have in common with
tables of files. Evaluated by DuckDB (support/chains.py); tests/spark/test_derived.py has real Spark."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest
from support.chains import by_duckdb

import lading
from lading.cli.main import invoke
from lading.config.file import load as load_config
from lading.errors import ConfigError, NotReady
from lading.ingest import commit
from lading.ingest.derived import changed, count, evaluate
from lading.ingest.derived.inputs import OpenInput
from lading.ingest.derived.lineage import files_in, last_change
from lading.ingest.look import look
from lading.ingest.quarantine import list_aside
from lading.ingest.release import release
from lading.ingest.tasks import task
from lading.log.table import Table as LogTable
from lading.model import Commit
from lading.plan import plan_tables
from lading.run import RunReport, run
from lading.snapshots.history import Wanted
from lading.snapshots.stores.by_url import store_of
from lading.upkeep.clean import apply, pinned
from lading.upkeep.clean.apply import clean, clean_tables
from lading.upkeep.clean.survey import Rules
from lading.upkeep.merge import merge_table
from lading.upkeep.rollback import roll_back
from lading.watch import Watch

CONFIG = """\
warehouse: warehouse
spark: {in_process_below: 1GB}
tables:
  voyages: {root: data, path: "v*.csv", format: csv, order_by: day, bucket_size: 10}
  ports: {root: data, path: "p*.csv", format: csv, gate: {rows: {max_drop: 0%}}}
"""
TONNAGE = """\
  tonnage:
    from: {voyages: {by: port}, ports: {by: port}}
    sql: "select v.port, country, cast(sum(tonnes) as bigint) as tonnes
      from voyages v join ports p on v.port = p.port group by all"
"""
TOP = """\
  top:
    from: {tonnage: {}}
    sql: "select cast(sum(tonnes) as bigint) as tonnes, count(*) as ports from tonnage"
"""
BY_DAY = """\
  by_day:
    from: {voyages: {by: bucket}}
    sql: "select day, cast(sum(tonnes) as bigint) as tonnes from voyages group by day"
    order_by: day
    bucket_size: 10
"""

STRAY = """\
  stray:
    from: {{voyages: {{by: bucket}}}}
    sql: "{sql}"
"""


class Asked:
    """Counts what is evaluated, and how many rows are read for it."""

    def __init__(self) -> None:
        self.rows: list[dict[str, int]] = []
        self.parts: list[dict[str, int]] = []

    def __call__(self, session: Any, job: Any, question: Any, *rest: Any) -> Any:
        read = {
            g.name: [r for n in range(g.tasks) for r in g.read(n, g.schema.names)] for g in question.given
        }
        self.rows.append({name: sum(len(one) for one in several) for name, several in read.items()})
        self.parts.append({g.name: sum(map(len, g.read.__self__.portions)) for g in question.given})
        return by_duckdb(session, job, question, *rest)


class Shop:
    def __init__(self, folder: Path, *tables: str) -> None:
        self.folder = folder
        (folder / "data").mkdir(parents=True)
        self.tick = 0
        self.configure(*(tables or (TONNAGE, TOP)))
        self.put("v1.csv", "port,day,tonnes\nhh,1,10\nro,11,20\nsi,21,5\n")
        self.put("v2.csv", "port,day,tonnes\nhh,2,1\nsa,12,7\n")
        self.put("p.csv", "port,country\nhh,de\nro,nl\nsi,sg\nsa,br\n")

    def configure(self, *tables: str) -> None:
        (self.folder / "lading.yaml").write_text(CONFIG + "".join(tables))

    @property
    def config(self) -> Any:
        return load_config(self.folder)

    def put(self, key: str, text: str) -> None:
        self.tick += 1
        path = self.folder / "data" / key
        path.write_text(text)
        os.utime(path, (1_600_000_000 + self.tick,) * 2)

    def run(self, *names: str, **options: Any) -> RunReport:
        return run(self.config, names, allow_vanish=True, **options)

    def done(self, *names: str, **options: Any) -> dict[str, Any]:
        report = self.run(*names, **options)
        assert report.error is None, report.error
        return {one.table: one for one in report.tables}

    def rows(self, name: str) -> list[tuple[Any, ...]]:
        with lading.open(self.folder / "warehouse" / name) as reader:
            table = reader.to_arrow().read_all().drop_columns(["_source"])
        return sorted(tuple(row.values()) for row in table.to_pylist())


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Iterator[Asked]:
    found = Asked()
    monkeypatch.setattr(evaluate, "through_spark", found)
    yield found


@pytest.fixture
def shop(tmp_path: Path, asked: Asked) -> Shop:
    return Shop(tmp_path / "project")


def test_a_table_follows_an_edit_and_a_deletion_of_the_files_below_it(shop):
    shop.done()
    assert shop.rows("tonnage") == [("hh", "de", 11), ("ro", "nl", 20), ("sa", "br", 7), ("si", "sg", 5)]
    assert shop.rows("top") == [(43, 4)]
    shop.put("v2.csv", "port,day,tonnes\nhh,2,2\nsa,12,7\n")
    shop.done()
    assert shop.rows("tonnage")[0] == ("hh", "de", 12)
    assert shop.rows("top") == [(44, 4)]
    (shop.folder / "data" / "v1.csv").unlink()
    shop.done()
    assert shop.rows("tonnage") == [("hh", "de", 2), ("sa", "br", 7)]
    assert shop.rows("top") == [(9, 2)]


def test_only_the_slots_of_rows_that_differ_are_evaluated(shop, asked):
    shop.done()
    asked.rows.clear()
    shop.put("v2.csv", "port,day,tonnes\nhh,2,2\nsa,12,7\n")
    done = shop.done("tonnage")
    assert done["tonnage"].verdicts["changed"] == 1
    assert asked.rows == [{"voyages": 2, "ports": 1}]  # those of hh, and no others


def test_a_run_with_nothing_to_do_evaluates_nothing_and_starts_nothing(shop, asked):
    shop.done()
    asked.rows.clear()
    report = shop.run()
    assert not report.spark_started and not asked.rows
    assert [one.sequence for one in report.tables] == [1, 1, 1, 1]
    assert all(plan.idle for plan in plan_tables(shop.config))


@pytest.fixture
def unread(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Parts as large as those that are not compared at once; the tables for which rows were read all the
    same, to see which slots changed."""
    found: list[str] = []
    plain = count.signed_rows
    monkeypatch.setattr(changed, "LARGE", 0)
    monkeypatch.setattr(count, "signed_rows", lambda *rest: found.append("read") or plain(*rest))
    return found


def test_the_log_knows_the_slots_of_a_changed_file_and_no_part_is_opened(shop, asked, unread):
    shop.done()
    asked.rows.clear()
    shop.put("v2.csv", "port,day,tonnes\nro,2,2\n")
    done = shop.done("tonnage")
    assert not unread and done["tonnage"].verdicts["changed"] == 3  # hh and sa, where it was, and ro
    assert asked.rows == [{"voyages": 3, "ports": 3}]
    assert shop.rows("tonnage") == [("hh", "de", 10), ("ro", "nl", 22), ("si", "sg", 5)]
    (shop.folder / "data" / "v1.csv").unlink()
    shop.done("tonnage")
    assert not unread and shop.rows("tonnage") == [("ro", "nl", 2)]


@pytest.mark.parametrize("one_by_one", [0, 64])
def test_the_slots_of_a_file_stay_known_when_only_its_fingerprint_changed(
    shop, asked, unread, monkeypatch, one_by_one
):
    monkeypatch.setattr(commit, "_ONE_BY_ONE", one_by_one)
    shop.done()
    shop.put("v2.csv", (shop.folder / "data" / "v2.csv").read_text())  # with another time
    assert shop.done()["voyages"].verdicts["touched"] == 1
    shop.put("v1.csv", "port,day,tonnes\nhh,1,10\nro,11,20\nsi,21,6\n")
    shop.done("tonnage")  # published with what was noted
    shop.put("v2.csv", "port,day,tonnes\nhh,2,2\nsa,12,7\n")
    shop.done("tonnage")
    assert not unread and shop.rows("tonnage")[0] == ("hh", "de", 12)


def test_a_file_with_rows_in_many_slots_is_compared(shop, asked, unread, monkeypatch):
    monkeypatch.setattr(task, "FEW_SLOTS", 1)
    monkeypatch.setattr(commit, "FEW_SLOTS", 1)
    shop.done()
    shop.put("v2.csv", "port,day,tonnes\nhh,2,2\n")
    shop.done("tonnage")
    assert unread and shop.rows("tonnage")[0] == ("hh", "de", 12)
    unread.clear()
    shop.put("v2.csv", "port,day,tonnes\nhh,2,3\n")
    shop.done("tonnage")
    assert not unread and shop.rows("tonnage")[0] == ("hh", "de", 13)


def test_slots_that_were_noted_of_another_cut_count_for_nothing(shop, asked, unread):
    shop.done()
    shop.configure(TONNAGE + "    slots: 16\n")
    shop.done()
    shop.put("v2.csv", "port,day,tonnes\nsa,2,2\n")
    shop.done()
    assert unread and shop.rows("tonnage") == [
        ("hh", "de", 10),
        ("ro", "nl", 20),
        ("sa", "br", 2),
        ("si", "sg", 5),
    ]


def test_of_a_file_whose_rows_did_not_all_stay_no_slots_are_noted(tmp_path, asked, unread):
    shop = Shop(tmp_path / "project", TONNAGE)
    checks = "on_bad: quarantine, checks: [{range: {column: tonnes, max: 8}, threshold: 50%}]}"
    text = (shop.folder / "lading.yaml").read_text()
    (shop.folder / "lading.yaml").write_text(text.replace("bucket_size: 10}", f"bucket_size: 10, {checks}"))
    shop.done()
    noted = {
        one.key: one.slots for one, _ in LogTable.open(shop.config.place("voyages")).state.sources_by_key()
    }
    assert noted["v2.csv"] and noted["v1.csv"] == ()
    shop.put("v1.csv", "port,day,tonnes\nhh,1,1\n")
    shop.done()
    assert unread and shop.rows("tonnage") == [("hh", "de", 2), ("sa", "br", 7)]


def test_rows_that_only_moved_change_no_slot(shop, asked):
    shop.done()
    asked.rows.clear()
    (shop.folder / "data" / "v1.csv").rename(shop.folder / "data" / "v9.csv")
    done = shop.done()
    assert done["voyages"].rows_added == 3 and not asked.rows
    assert done["tonnage"].verdicts["unchanged"] == 256 and not done["tonnage"].published
    merge_table(shop.config, "voyages")
    assert shop.done()["tonnage"].verdicts["unchanged"] == 256 and not asked.rows
    [voyages] = [
        one for one in look(shop.config, "tonnage", watch=Watch()).derived.pins if one.name == "voyages"
    ]
    assert voyages.sequence == lading.open(shop.folder / "warehouse" / "voyages").snapshot.sequence


def test_a_chain_stops_where_the_result_is_as_it_was(shop, asked):
    shop.configure(TONNAGE, TOP.replace("from tonnage", "from tonnage where port <> 'hh'"))
    shop.done()
    asked.rows.clear()
    shop.put("v2.csv", "port,day,tonnes\nhh,2,1\nsa,12,3\nsa,13,4\n")  # 7 as before
    assert shop.done()["top"].verdicts["unchanged"] == 1
    assert len(asked.rows) == 1


def test_more_than_half_of_the_slots_are_evaluated_at_once(shop, asked):
    shop.configure(TONNAGE + "    slots: 3\n")
    shop.done()
    shop.put("v2.csv", "port,day,tonnes\nhh,2,100\nsa,12,700\nro,12,700\nsi,1,1\n")
    [plan] = [one for one in plan_tables(shop.config) if one.table == "tonnage"]
    done = shop.done()
    assert done["tonnage"].verdicts["changed"] + done["tonnage"].verdicts["reread"] == 3
    assert plan.waits and asked.rows[-1]["voyages"] == 7


def test_another_recipe_evaluates_everything_and_says_what_changed(shop):
    shop.done()
    shop.configure(TONNAGE.replace("sum(tonnes)", "max(tonnes)"), TOP)
    plans = {plan.table: plan for plan in plan_tables(shop.config)}
    assert plans["tonnage"].again.why == "the query changed"
    shop.done()
    assert shop.rows("tonnage")[0] == ("hh", "de", 10)
    shop.configure(TONNAGE.replace("sum(tonnes)", "max(tonnes)") + "    slots: 7\n", TOP)
    assert {plan.table: plan for plan in plan_tables(shop.config)}["tonnage"].again.why == "slots changed"
    assert shop.done()["tonnage"].verdicts["vanished"] == 249
    assert shop.rows("tonnage")[0] == ("hh", "de", 10)


def test_an_input_whose_columns_changed_evaluates_everything(shop):
    shop.done()
    shop.configure(TONNAGE.replace("country", "country"), TOP)
    (shop.folder / "schema" / "ports.yaml").unlink()
    shop.put("p.csv", "port,country,pilots\nhh,de,1\nro,nl,2\nsi,sg,3\nsa,br,4\n")
    shop.done("ports")
    [plan] = [one for one in plan_tables(shop.config) if one.table == "tonnage"]
    assert plan.again.why == "the columns of an input changed"
    shop.done()


def test_a_table_whose_input_failed_is_not_run_and_others_are(shop):
    shop.configure(TONNAGE, TOP, BY_DAY)
    shop.done()
    shop.put("p.csv", "port,country\nhh\n")
    shop.put("v2.csv", "port,day,tonnes\nhh,2,2\n")
    told = {one.table: one for one in shop.run().tables}
    assert isinstance(told["tonnage"].error, NotReady) and isinstance(told["top"].error, NotReady)
    assert "tonnage was not run: ports, which it is made of, failed" in told["tonnage"].error.message
    assert told["by_day"].error is None and told["by_day"].rows_removed


def test_a_gate_that_refuses_an_input_stops_what_depends_on_it(shop):
    shop.done()
    shop.put("p.csv", "port,country\nhh,de\n")
    shop.put("v2.csv", "port,day,tonnes\nhh,2,2\n")
    told = {one.table: one for one in shop.run().tables}
    assert "ports, which it is made of, was refused by its gate" in told["tonnage"].error.message
    assert shop.rows("tonnage")[0] == ("hh", "de", 11)
    assert shop.done("tonnage", only=True)["tonnage"].published  # of what readers see: the ports as before
    assert shop.rows("tonnage") == [("hh", "de", 12), ("ro", "nl", 20), ("si", "sg", 5)]


def test_status_says_which_input_has_work_to_do_first(shop, capsys):
    shop.configure(TOP, TONNAGE)
    shop.done()

    def told() -> dict[str, list[str]]:
        assert invoke(["-C", str(shop.folder), "status", "--json"]) == 0
        found = json.loads(capsys.readouterr().out)["tables"]
        return {one["table"]: [of["name"] for of in one["inputs"] if of["has_work"]] for one in found}

    assert not any(told().values())
    shop.put("v2.csv", "port,day,tonnes\nhh,2,2\n")
    assert told() == {"voyages": [], "ports": [], "top": ["tonnage"], "tonnage": ["voyages"]}
    assert invoke(["-C", str(shop.folder), "status"]) == 0
    shown = capsys.readouterr().out
    assert "voyages has work to do first" in shown and "tonnage has work to do first" in shown
    shop.done("voyages")
    assert told()["top"] == ["tonnage"] and told()["tonnage"] == []  # it is behind, and top is made of it
    shop.done()
    assert not any(told().values())


def test_status_says_which_input_a_table_waits_for(shop, capsys):
    shop.configure(TOP, TONNAGE)  # in whatever order they are written

    def waits(*names: str) -> dict[str, list[str]]:
        assert invoke(["-C", str(shop.folder), "status", *names, "--json"]) == 0
        found = json.loads(capsys.readouterr().out)["tables"]
        return {
            one["table"]: [f"{of['name']} {of['stopped']}" for of in one["inputs"] if of["stopped"]]
            for one in found
        }

    assert not any(waits().values())  # nothing was run yet: nothing failed
    shop.done()
    assert not any(waits().values())
    whole = (shop.folder / "data" / "p.csv").read_text()
    shop.put("p.csv", "port,country\nhh,de\n")
    shop.run()
    assert waits()["tonnage"] == ["ports was refused by its gate"]
    assert waits("top") == {"top": ["tonnage waits for ports"]}
    shop.put("p.csv", "port,country\nhh\n")
    assert shop.run().error is not None
    assert waits()["tonnage"] == ["ports was refused by its gate"]  # its rows are as they were
    shop.put("p.csv", whole)
    shop.done()
    shop.put("p.csv", "port,country\nhh\n")
    assert shop.run().error is not None
    assert waits() == {
        "voyages": [],
        "ports": [],
        "tonnage": ["ports failed"],
        "top": ["tonnage waits for ports"],
    }
    assert invoke(["-C", str(shop.folder), "status"]) == 0
    told = capsys.readouterr().out
    assert "waits for ports, which failed" in told and "waits for tonnage, which waits for ports" in told
    shop.put("p.csv", whole)  # nothing to do, so that no run of it succeeds either
    shop.done()
    assert not any(waits().values())


def test_status_says_that_a_table_waits_for_an_input_that_can_t_be_looked_at(shop, capsys):
    shop.done()
    (shop.folder / "data").rename(shop.folder / "gone")
    assert invoke(["-C", str(shop.folder), "status", "tonnage"]) == 0
    assert "waits for voyages, which failed" in capsys.readouterr().out


def test_a_run_of_one_table_runs_what_it_needs_first_and_only_does_not(shop):
    assert list(shop.done("tonnage")) == ["voyages", "ports", "tonnage"]
    shop.put("v2.csv", "port,day,tonnes\nhh,2,2\n")
    assert list(shop.done("tonnage", only=True)) == ["tonnage"]
    assert shop.rows("tonnage")[0] == ("hh", "de", 11)


def test_what_is_asked_beyond_a_plain_run_is_asked_of_the_selected_tables(shop, asked):
    shop.done()
    done = shop.done("tonnage", full=True)
    assert done["voyages"].verdicts["reread"] == 0 and done["tonnage"].verdicts["reread"] == 256


def test_a_table_whose_input_was_never_published_says_so(shop):
    [table] = shop.run("tonnage", only=True).tables
    assert isinstance(table.error, NotReady) and table.error.hint == "lading run voyages"
    [*_, plan] = plan_tables(shop.config, ["tonnage"])
    assert plan.waits and "has nothing published" in plan.notes[0]


def test_by_bucket_only_the_buckets_that_changed_are_opened(tmp_path, asked):
    shop = Shop(tmp_path / "project", BY_DAY)
    shop.done()
    assert shop.rows("by_day") == [(1, 10), (2, 1), (11, 20), (12, 7), (21, 5)]
    assert [one.key for one in lading.open(shop.folder / "warehouse" / "by_day").sources()] == [
        "slot=000000",
        "slot=000001",
        "slot=000002",
    ]
    shop.put("v1.csv", "port,day,tonnes\nhh,1,11\nro,11,20\nsi,21,5\n")
    done = shop.done()
    assert done["by_day"].verdicts["changed"] == 1
    assert asked.rows[-1] == {"voyages": 2}
    assert shop.rows("by_day")[0] == (1, 11)
    shop.put("v1.csv", "port,day,tonnes\nhh,1,11\nro,11,20\n")
    assert shop.done()["by_day"].verdicts["vanished"] == 1
    assert shop.rows("by_day")[-1] == (12, 7)


@pytest.mark.parametrize(
    ("by", "complaint"),
    [
        (
            "voyages: {by: prt}",
            ":7: tables.tonnage.from.voyages.by: voyages has no column 'prt'; did you mean",
        ),
        ("voyages: {by: port}, ports: {by: country}", None),
        ("voyages: {by: day}, ports: {by: port}", "from.ports.by: string here, but bigint in voyages"),
        ("ports: {by: bucket}", "ports has no buckets"),
    ],
)
def test_columns_that_can_t_be_cut_by_are_refused_with_line_and_key(shop, by, complaint):
    shop.done("voyages", "ports")
    shop.configure("  tonnage:\n    from: {" + by + "}\n    sql: select port from voyages\n")
    before = shop.run("voyages", "ports").run_id
    try:
        error = shop.run("tonnage").error
    except ConfigError as raised:
        error = raised
    assert (error is None) == (complaint is None)
    if complaint is not None:
        assert complaint in error.message and before


def test_buckets_that_an_input_has_not_are_told_before_anything_runs(shop):
    shop.configure("  tonnage:\n    from: {ports: {by: bucket}}\n    sql: select port from ports\n")
    with pytest.raises(ConfigError, match=r":7: tables.tonnage.from.ports.by: ports has no buckets"):
        shop.run()
    assert not (shop.folder / "warehouse" / "ports").exists()


def test_columns_that_follow_the_files_stop_their_table_alone_and_a_plain_run_gets_out(shop):
    lines = (shop.folder / "lading.yaml").read_text().splitlines()
    text = "\n".join(one.replace("format: csv", "format: csv, drift: evolve") for one in lines)
    (shop.folder / "lading.yaml").write_text(text + "\n" + BY_DAY)
    shop.put("p.csv", "port,country\n1,de\n2,nl\n")
    for _ in range(2):  # the second time the schema files are there, and don't fit each other
        report = {one.table: one.error for one in shop.run().tables}
        assert isinstance(report["tonnage"], ConfigError)
        assert "tables.tonnage.from.ports.by: bigint here, but string in voyages" in str(report["tonnage"])
        assert {name for name, error in report.items() if error is None} == {"voyages", "ports", "by_day"}
    shop.put("p.csv", "port,country\nhh,de\nro,nl\n")
    shop.done()
    assert shop.rows("tonnage") == [("hh", "de", 11), ("ro", "nl", 20)]


def test_columns_of_strict_tables_that_do_not_fit_stop_all_before_anything_runs(shop):
    shop.configure(TONNAGE, BY_DAY)
    shop.put("p.csv", "port,country\n1,de\n2,nl\n")
    shop.run()
    shop.put("v2.csv", "port,day,tonnes\nhh,2,2\nsa,12,7\n")
    with pytest.raises(ConfigError, match="bigint here, but string in voyages"):
        shop.run()
    assert shop.rows("by_day")[1] == (2, 1)


def test_rows_that_fail_a_check_are_set_aside_with_their_slot(tmp_path, asked):
    checks = "    on_bad: quarantine\n    checks: [{range: {column: tonnes, max: 15}}]\n"
    shop = Shop(tmp_path / "project", TONNAGE + checks)
    done = shop.done()
    assert done["tonnage"].rows_rejected == 1 and [row[0] for row in shop.rows("tonnage")] == [
        "hh",
        "sa",
        "si",
    ]
    [aside] = list_aside(shop.config, "tonnage")
    again = shop.done("tonnage", replay=[aside.file])
    assert list(again) == ["tonnage"] and again["tonnage"].verdicts["reread"] == 1
    shop.put("v1.csv", "port,day,tonnes\nhh,1,10\nro,11,2\nsi,21,5\n")
    shop.done()
    assert [row[0] for row in shop.rows("tonnage")] == ["hh", "ro", "sa", "si"]


def test_a_gate_of_its_own_works_as_for_files(tmp_path, asked):
    shop = Shop(tmp_path / "project", TONNAGE + "    gate: {rows: {max_drop: 10%}}\n")
    shop.done()
    (shop.folder / "data" / "v1.csv").unlink()
    assert "the gate of tonnage refused" in str(shop.run().error)
    assert len(shop.rows("tonnage")) == 4


def test_a_removed_entry_of_the_manifest_evaluates_that_slot_again(shop, asked):
    import json

    shop.done()
    path = shop.folder / "manifest" / "tonnage.json"
    manifest = json.loads(path.read_text())
    key = next(key for key, entry in manifest["files"].items() if entry["metadata"]["row_count"])
    del manifest["files"][key]
    path.write_text(json.dumps(manifest))
    assert shop.done()["tonnage"].verdicts["reread"] == 1


def test_an_input_that_is_rolled_back_takes_what_is_made_of_it_along(shop):
    shop.done()
    shop.put("v2.csv", "port,day,tonnes\nhh,2,2\nsa,12,7\n")
    shop.done()
    roll_back(shop.config, "voyages", Wanted(offset=1))
    shop.done()
    assert shop.rows("tonnage")[0] == ("hh", "de", 11)


def test_cleaning_keeps_the_snapshot_that_a_table_was_made_from(shop, asked):
    shop.done()
    for number in range(3):
        shop.put("v2.csv", f"port,day,tonnes\nhh,2,{number + 5}\nsa,12,7\n")
        shop.done("voyages")
    clean(shop.config, "voyages", Rules(keep_runs=1, grace=timedelta(0)), apply=True)
    assert shop.done("tonnage")["tonnage"].verdicts["changed"] == 1


def _inputs_of(shop: Shop, name: str, ref: str | None = None) -> dict[str, str]:
    with lading.open(shop.folder / "warehouse" / name, ref=ref) as reader:
        return {one["name"]: one["ref"] for one in reader.info()["inputs"]}


def test_cleaning_keeps_what_each_snapshot_was_made_from_that_readers_can_be_led_back_to(shop):
    for number in range(4):
        shop.put("v2.csv", f"port,day,tonnes\nhh,2,{number}\nsa,12,7\n")
        shop.done()
    clean(shop.config, "voyages", Rules(keep_runs=1, grace=timedelta(0)), apply=True)
    for one in store_of(shop.config, "tonnage").list_manifests():
        roll_back(shop.config, "tonnage", Wanted(ref=one.ref))
        made_from = _inputs_of(shop, "tonnage")["voyages"]
        with lading.open(shop.folder / "warehouse" / "voyages", ref=made_from) as voyages:
            rows = voyages.to_arrow().read_all().to_pylist()
        tonnes = sum(row["tonnes"] for row in rows if row["port"] == "hh")
        assert ("hh", "de", tonnes) in shop.rows("tonnage")


OF_PORTS = "  tonnage: {from: {ports: {by: port}}, sql: 'select port, country from ports'}\n"
OF_FILES = '  tonnage: {root: data, path: "p*.csv", format: csv}\n'


@pytest.mark.parametrize("then", ["", OF_PORTS, OF_FILES], ids=["dropped", "of another", "of files"])
def test_cleaning_keeps_what_a_snapshot_was_made_from_that_its_table_is_no_longer_made_of(shop, then):
    shop.configure(TONNAGE)
    for number in range(3):
        shop.put("v2.csv", f"port,day,tonnes\nhh,2,{number}\nsa,12,7\n")
        shop.done()
    shop.configure(then)
    for number in range(3):
        shop.put("v2.csv", f"port,day,tonnes\nhh,2,{number + 10}\nsa,12,7\n")
        shop.done()
    rules = Rules(keep_runs=1, grace=timedelta(0))
    clean_tables(shop.config, ["voyages", "ports"], rules, apply=True)
    assert len(store_of(shop.config, "voyages").list_manifests()) == 4
    for one in store_of(shop.config, "tonnage").list_manifests():
        made_from = _inputs_of(shop, "tonnage", one.ref)
        if "voyages" in made_from:
            with lading.open(shop.folder / "warehouse" / "voyages", ref=made_from["voyages"]) as reader:
                assert reader.to_arrow().read_all().num_rows


def test_a_table_of_files_that_was_made_of_tables_names_no_inputs(shop):
    shop.configure(TONNAGE)
    shop.done()
    assert _inputs_of(shop, "tonnage")
    shop.configure(OF_FILES)
    shop.done()
    assert not _inputs_of(shop, "tonnage")
    shop.put("v2.csv", "port,day,tonnes\nhh,2,5\n")
    shop.done()
    assert lading.open_all(shop.folder / "warehouse", ["voyages", "tonnage"])


@pytest.mark.parametrize("then", ["", OF_PORTS], ids=["dropped", "of another"])
def test_a_damaged_log_of_a_table_that_is_made_of_it_no_more_keeps_no_table_from_being_cleaned(shop, then):
    shop.configure(TONNAGE)
    shop.done()
    shop.put("v2.csv", "port,day,tonnes\nhh,2,5\nsa,12,7\n")
    shop.done()
    shop.configure(then)
    (shop.folder / "warehouse" / "tonnage" / "manifest.log").write_bytes(b"nonsense" * 100)
    for number in range(6, 8):
        shop.put("v2.csv", f"port,day,tonnes\nhh,2,{number}\nsa,12,7\n")
        shop.done("voyages")
    [voyages] = clean_tables(shop.config, ["voyages"], Rules(keep_runs=1, grace=timedelta(0)), apply=True)
    assert voyages.error is None and voyages.manifests
    assert len(store_of(shop.config, "voyages").list_manifests()) == 3


def test_cleaning_reads_each_manifest_of_tables_made_of_tables_once_for_all(shop, monkeypatch):
    for number in range(3):
        shop.put("v2.csv", f"port,day,tonnes\nhh,2,{number}\nsa,12,7\n")
        shop.done()
    asked: list[str] = []
    real = pinned.build_meta
    monkeypatch.setattr(
        pinned, "build_meta", lambda store, ref: asked.append(f"{store} {ref}") or real(store, ref)
    )
    clean_tables(shop.config, list(shop.config.tables), Rules())
    assert len(asked) == len(set(asked)) == 2 * 3 + 2  # and what readers see of the tables of files


def test_what_only_an_old_snapshot_was_made_from_goes_with_it_and_is_shown_before(shop):
    rules = Rules(keep_runs=1, grace=timedelta(0))
    for number in range(3):
        shop.put("v2.csv", f"port,day,tonnes\nhh,2,{number}\nsa,12,7\n")
        shop.done()
    names = ["voyages", "ports", "tonnage", "top"]
    shown = clean_tables(shop.config, names, rules)
    assert [one.table for one in shown] == names
    assert [len(one.manifests) for one in shown] == [2, 0, 2, 2]
    done = clean_tables(shop.config, names, rules, apply=True)
    assert [{one.path for one in report.deleted} for report in done] == [
        {one.path for one in report.garbage} for report in shown
    ]
    # Iceberg's metadata from before was still followed; now it is what is left.
    left = {one.kind for report in clean_tables(shop.config, names, rules) for one in report.garbage}
    assert left <= {"iceberg"}


@pytest.mark.parametrize("cleaned", range(1, 4))
def test_a_cleaning_that_is_cut_short_leaves_each_snapshot_what_it_was_made_from(shop, monkeypatch, cleaned):
    for number in range(3):
        shop.put("v2.csv", f"port,day,tonnes\nhh,2,{number}\nsa,12,7\n")
        shop.done()
    tables = iter(range(cleaned))

    def dies(config: Any, name: str, *args: Any, **options: Any) -> Any:
        if next(tables, None) is None:
            raise KeyboardInterrupt
        return clean(config, name, *args, **options)

    monkeypatch.setattr(apply, "clean", dies)
    with pytest.raises(KeyboardInterrupt):
        names = ["voyages", "ports", "tonnage", "top"]
        clean_tables(shop.config, names, Rules(keep_runs=1, grace=timedelta(0)), apply=True)
    for name in ("tonnage", "top"):
        for one in store_of(shop.config, name).list_manifests():
            for made_of, ref in _inputs_of(shop, name, one.ref).items():
                with lading.open(shop.folder / "warehouse" / made_of, ref=ref) as reader:
                    assert reader.to_arrow().read_all().num_rows


def test_a_table_that_cant_be_cleaned_keeps_no_other_from_it(shop, capsys):
    shop.done()
    shop.put("v2.csv", "port,day,tonnes\nhh,2,2\nsa,12,7\n")
    shop.done()
    [old] = store_of(shop.config, "ports").list_manifests()
    (shop.folder / "warehouse" / "ports" / old.ref).write_bytes(b"not a manifest")
    arguments = ["clean", "--older-than", "0s", "--keep-runs", "1", "--apply", "--json"]
    assert invoke(["-C", str(shop.folder), *arguments]) == 1
    told = json.loads(capsys.readouterr().out)
    tables = {one["table"]: one for one in told["tables"]}
    assert old.ref in tables["ports"]["error"]["message"] and told["error"] == tables["ports"]["error"]
    assert tables["voyages"]["deleted"] and tables["tonnage"]["deleted"] and not tables["voyages"]["error"]


@pytest.mark.parametrize(
    ("command", "tables", "told"),
    [
        ("status", [], "files, slots"),
        ("status", ["voyages", "ports"], "files "),
        ("status", ["tonnage"], "slots "),
        ("run", [], "files, slots"),
        ("verify", ["tonnage"], "256 slots,"),
        ("verify", ["voyages"], "2 sources,"),
    ],
)
def test_what_rows_come_from_is_called_by_its_name(shop, capsys, command, tables, told):
    shop.done()
    assert invoke(["-C", str(shop.folder), command, *tables]) == 0
    assert told in capsys.readouterr().out


def test_without_the_snapshot_that_it_was_made_from_everything_is_evaluated(shop):
    shop.done()
    [pin] = [one for one in look(shop.config, "tonnage", watch=Watch()).derived.pins if one.name == "voyages"]
    shop.put("v2.csv", "port,day,tonnes\nhh,2,2\nsa,12,7\n")
    shop.done("voyages")
    (shop.folder / "warehouse" / "voyages" / pin.ref).unlink()
    plan = look(shop.config, "tonnage", watch=Watch()).plan
    assert plan.replaces_all and "is no longer kept" in plan.again.why
    shop.done()
    assert shop.rows("tonnage")[0] == ("hh", "de", 12)


def test_a_published_table_elsewhere_can_be_an_input(tmp_path, asked):
    there = Shop(tmp_path / "there")
    there.done("ports")
    here = Shop(tmp_path / "here")
    other = TONNAGE.replace("ports: {by: port}", "harbours: {path: ../there/warehouse/ports, by: port}")
    here.configure(other.replace("ports p", "harbours p"))
    here.done()
    assert here.rows("tonnage")[0] == ("hh", "de", 11)
    there.put("p.csv", "port,country\nhh,xx\nro,nl\nsi,sg\nsa,br\n")
    there.done("ports")
    assert here.done()["tonnage"].verdicts["changed"] == 1
    assert here.rows("tonnage")[0] == ("hh", "xx", 11)


def test_a_slot_leads_back_to_the_files_whose_rows_are_in_it(shop):
    shop.done()
    config = shop.config
    pins = {one.name: one for one in look(config, "tonnage", watch=Watch()).derived.pins}
    with lading.open(shop.folder / "warehouse" / "tonnage") as reader:
        [row] = reader.to_arrow("port = 'hh'").read_all().to_pylist()
        key = next(one.key for one in reader.sources() if one.id == row["_source"])
    found = files_in(config, config.table("tonnage"), pins, frozenset([int(key[5:])]))
    assert [(one.table, one.key, one.rows) for one in found] == [
        ("ports", "p.csv", 1),
        ("voyages", "v1.csv", 1),
        ("voyages", "v2.csv", 1),
    ]
    shop.put("v2.csv", "port,day,tonnes\nhh,2,2\nsa,12,7\n")
    shop.done()
    last = last_change(config, config.table("tonnage"), key)
    assert [(one.table, one.key, one.came, one.went) for one in last.moved] == [("voyages", "v2.csv", 1, 1)]
    top = {one.name: one for one in look(config, "top", watch=Watch()).derived.pins}
    files = {one.key for one in files_in(config, config.table("top"), top, frozenset([0]))}
    assert files == {"p.csv", "v1.csv", "v2.csv"}


def test_the_command_line_speaks_of_slots(shop, capsys):
    shop.done()
    shop.put("v2.csv", "port,day,tonnes\nhh,2,2\nsa,12,7\n")
    shop.done("voyages")

    def said(*words: str) -> str:
        invoke(["-C", str(shop.folder), *words])
        return capsys.readouterr().out

    assert "1 row of voyages came, 1 went" in said("plan")
    assert "behind voyages (at 1, readers see 2)" in said("status")
    slot = next(
        one.key for one in look(shop.config, "tonnage", watch=Watch()).plan.files if one.verdict == "changed"
    )
    assert "v2.csv" in said("explain", "tonnage", slot)
    shop.done()
    assert "made of ports at sequence 1, voyages at sequence 2" in said("history", "tonnage")
    changed = said("diff", "tonnage", "~1", "current")
    assert "input voyages: sequence 1 -> 2" in changed
    assert changed.splitlines()[1].startswith("slot ") and changed.splitlines()[2].startswith(slot)
    assert said("sources", "tonnage").splitlines()[0].split() == ["source", "slot", "fingerprint", "rows"]
    assert "v2.csv" in said("sources", "tonnage", "--slot", slot)
    assert "intact" in said("verify", "tonnage")


@pytest.mark.parametrize(
    ("asked_of", "told"),
    [
        ("tonnage", ["tonnage is a table", "lading explain tonnage slot=00017"]),
        ("top", ["top is a table", "lading explain top slot=00000"]),
        (
            "by_day",
            ["by_day is a table", "lading explain by_day slot=000000", "`lading sources by_day` lists"],
        ),
        ("voyages", ["voyages is a table", "lading plan voyages"]),
        ("vojages", ["there is no file vojages"]),
    ],
)
def test_explain_says_how_to_ask_about_a_table(shop, capsys, asked_of, told):
    shop.configure(TONNAGE, TOP, BY_DAY)
    shop.done()
    assert invoke(["-C", str(shop.folder), "explain", asked_of]) != 0
    said = capsys.readouterr().err
    assert all(one in said for one in told), said


def test_what_was_never_evaluated_is_not_behind_and_has_no_files(shop, capsys):
    """The inputs of tonnage are there, itself is not."""
    shop.done("voyages")

    def said(*words: str) -> str:
        invoke(["-C", str(shop.folder), *words])
        return capsys.readouterr().out

    planned = said("plan")
    assert "tonnage: every slot is new" in planned and "no files" not in planned
    assert "behind" not in said("status")
    shop.done()
    shop.put("v2.csv", "port,day,tonnes\nhh,2,2\nsa,12,7\n")
    shop.done("voyages")
    assert "behind voyages (at 1, readers see 2)" in said("status")


def test_a_slot_without_rows_says_so(shop, capsys):
    shop.done()
    command = ["-C", str(shop.folder), "sources", "tonnage", "--slot"]
    held = {
        int(one.key[5:]) for one in lading.open(shop.folder / "warehouse" / "tonnage").sources() if one.rows
    }
    empty = str(next(slot for slot in range(256) if slot not in held))
    assert invoke([*command, empty]) == 0
    assert capsys.readouterr().out == f"tonnage: no rows of its inputs are in slot={int(empty):05}\n"
    assert invoke([*command, empty, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["files"] == []


def test_a_slot_that_never_changed_is_as_old_as_what_is_kept(shop, capsys):
    shop.done()
    assert invoke(["-C", str(shop.folder), "explain", "tonnage", "17"]) == 0
    assert "(sequence 1): in the oldest snapshot that is kept, or before" in capsys.readouterr().out


def test_tables_are_opened_at_snapshots_that_belong_together(shop):
    shop.done()
    shop.put("v2.csv", "port,day,tonnes\nhh,2,2\nsa,12,7\n")
    shop.done("voyages")
    warehouse = shop.folder / "warehouse"
    found = lading.open_all(warehouse, ["voyages", "tonnage", "top"])
    assert found["voyages"].snapshot.sequence == 1
    assert sum(found["voyages"].to_arrow().read_all()["tonnes"].to_pylist()) == 43
    shop.done("tonnage")
    assert lading.open_all(warehouse, ["voyages", "tonnage"])["voyages"].snapshot.sequence == 2
    assert lading.open_all(warehouse, ["voyages", "top"])["voyages"].snapshot.sequence == 1
    shop.done()
    assert lading.open_all(warehouse, ["voyages", "top"])["voyages"].snapshot.sequence == 2


def test_tables_that_were_run_apart_are_opened_as_they_last_belonged_together(shop):
    shop.configure(TONNAGE, BY_DAY)
    shop.done()
    shop.put("v2.csv", "port,day,tonnes\nhh,2,2\nsa,12,7\n")
    shop.done("tonnage")
    warehouse = shop.folder / "warehouse"
    found = lading.open_all(warehouse, ["tonnage", "by_day", "voyages"])
    assert {name: one.snapshot.sequence for name, one in found.items()} == {
        "tonnage": 1,
        "by_day": 1,
        "voyages": 1,
    }
    sums = [sum(one.to_arrow().read_all()["tonnes"].to_pylist()) for one in found.values()]
    assert sums == [43, 43, 43]
    shop.done("by_day")
    found = lading.open_all(warehouse, ["tonnage", "by_day", "voyages"])
    assert [one.snapshot.sequence for one in found.values()] == [2, 2, 2]


def test_a_table_that_followed_an_input_without_a_change_belongs_to_both_of_its_snapshots(shop):
    shop.configure(TONNAGE.replace("group by all", "where day < 20 group by all"), BY_DAY)
    shop.done()
    shop.put("v1.csv", "port,day,tonnes\nhh,1,10\nro,11,20\nsi,21,6\n")
    done = shop.done("tonnage")
    assert not done["tonnage"].published  # the row of day 21 is none of its own
    warehouse = shop.folder / "warehouse"
    found = lading.open_all(warehouse, ["tonnage", "by_day", "voyages"])
    assert [one.snapshot.sequence for one in found.values()] == [1, 1, 1]
    assert lading.open_all(warehouse, ["tonnage", "voyages"])["voyages"].snapshot.sequence == 2


def _made_anew(shop: Shop, name: str) -> None:
    """Somebody removes a table, and runs it alone."""
    shutil.rmtree(shop.folder / "warehouse" / name)
    shop.config.source_manifest(name).unlink()
    shop.done(name)


def test_a_table_does_not_belong_to_one_that_was_made_anew_since(shop):
    shop.configure(TONNAGE)
    shop.done()
    shop.put("v2.csv", "port,day,tonnes\nhh,2,2\nsa,12,7\n")
    _made_anew(shop, "voyages")
    warehouse = shop.folder / "warehouse"
    with pytest.raises(NotReady, match="the snapshot of voyages that tonnage was made from is not kept"):
        lading.open_all(warehouse, ["voyages", "tonnage"])
    assert lading.open_all(warehouse, ["tonnage"])["tonnage"].snapshot.sequence == 1
    shop.done()
    assert [one.snapshot.sequence for one in lading.open_all(warehouse, ["voyages", "tonnage"]).values()] == [
        1,
        2,
    ]


def _made_of_ports_elsewhere(tmp_path: Path) -> tuple[Shop, Shop]:
    """A table made of voyages, and of a `ports` of another project; here is one of that name, too."""
    there, here = Shop(tmp_path / "there"), Shop(tmp_path / "here")
    there.done("ports")
    here.configure(TONNAGE.replace("ports: {by: port}", "ports: {path: ../there/warehouse/ports, by: port}"))
    here.done()
    return there, here


def _pins(shop: Shop, name: str) -> dict[str, dict[str, Any]]:
    """What the log of a table says."""
    with closing(LogTable.open(shop.config.place(name))) as table:
        return {one["name"]: one for one in json.loads(table.state.meta.inputs)}


def test_an_input_by_path_is_no_table_of_that_name_in_this_warehouse(tmp_path, asked):
    there, here = _made_of_ports_elsewhere(tmp_path)
    assert {name: one.get("by_path") for name, one in _pins(here, "tonnage").items()} == {
        "voyages": None,
        "ports": True,
    }
    there.put("p.csv", "port,country\nhh,xx\nro,nl\nsi,sg\nsa,br\n")
    there.done("ports")
    found = lading.open_all(here.folder / "warehouse", ["ports", "tonnage"])
    assert [one.snapshot.sequence for one in found.values()] == [1, 1]


def test_a_log_that_does_not_say_so_of_an_input_by_path_says_it_after_the_next_run(
    tmp_path, asked, monkeypatch
):
    pin = OpenInput.pin
    with monkeypatch.context() as before:
        before.setattr(OpenInput, "pin", lambda *told: msgspec.structs.replace(pin(*told), by_path=False))
        _, here = _made_of_ports_elsewhere(tmp_path)
    assert "by_path" not in _pins(here, "tonnage")["ports"]
    evaluated = len(asked.rows)
    assert not here.done()["tonnage"].published and len(asked.rows) == evaluated
    assert _pins(here, "tonnage")["ports"]["by_path"]
    found = lading.open_all(here.folder / "warehouse", ["ports", "tonnage"])
    assert [one.snapshot.sequence for one in found.values()] == [1, 1]


def test_a_part_that_somebody_put_there_by_hand_evaluates_everything(shop):
    shop.done()
    config, table = shop.config, LogTable.open(shop.config.place("voyages"))
    member = table.state.candidates(None)[0]
    stray = msgspec.structs.replace(member, sources=())
    commit = Commit("c", "by-hand", "2026-01-01T00:00:00+00:00", table.state.meta.recipe)
    table.commit(msgspec.structs.replace(commit, remove=(member.path,), add=(stray,)))
    release(
        config, config.table("voyages"), table, "by-hand", session=lambda: None, watch=Watch(), kept=set()
    )
    plan = look(config, "tonnage", watch=Watch()).plan
    assert plan.replaces_all and "belong to no file" in plan.again.why


def test_a_row_in_a_slot_of_no_input_is_refused_also_when_all_is_evaluated(shop):
    shop.configure(STRAY.format(sql="select day, tonnes from voyages"))
    shop.done()
    before = shop.rows("stray")
    astray = "select case when tonnes > 10 then 1000 else day end as day, tonnes from voyages"
    shop.configure(STRAY.format(sql=astray))
    error = shop.run().error
    assert "gave rows of others" in error.message and "slots: 1" not in error.hint
    assert before == shop.rows("stray") == [(1, 10), (2, 1), (11, 20), (12, 7), (21, 5)]
