"""lading in two minutes: some dozen files, a run, three changes, a run, and the proof that nothing is off.

Then what people ask for next, by the commands that they would type: what was set aside, one key, going back.

Everything is written below ./demo; the next demo starts it afresh.
"""

from __future__ import annotations

import shutil
import sys
import time
from datetime import datetime
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv
from rich.console import Console
from rich.table import Table

import lading
from lading.cli.main import invoke
from lading.config.file import load
from lading.ingest.plan import TablePlan
from lading.run import RunReport, TableReport, plan_tables, run

DEMO = Path("demo")
DATA = DEMO / "data" / "voyages"
ROWS = 25_000  # in each file
PORTS = ("hamburg", "rotterdam", "santos", "singapore")
MONTHS = ("202401", "202402", "202403")
SHIPS = np.array(
    ["Aurora", "Bernhardine", "Coral Wind", "Dorothea", "Ever North", "Fjordland", "Gulden", "Halcyon"]
)
CARGO = np.array(["coffee", "containers", "grain", "iron ore", "machinery"])
TONNES = np.array([9_000, 21_000, 48_000, 120_000, 6_500])

CONFIG = """\
warehouse: warehouse
tables:
  voyages:
    root: {root}
    path: "voyages/*.csv"
    format: csv
    columns_from_name: "(?P<port>[a-z]+)_(?P<month>\\\\d{{6}})\\\\.csv"
    order_by: departed_at
    bucket_size: 30d
    on_bad: quarantine
    serve: {{key: voyage_id, value: [ship, cargo, tonnes], shards: 4}}
  tonnage:
    from: {{voyages: {{by: port}}}}
    sql: >
      select port, month, cargo, count(*) as voyages, sum(cast(tonnes as decimal(12, 1))) as tonnes
      from voyages group by all
"""

console = Console(markup=False, highlight=False)


def main() -> int:
    started = time.monotonic()
    start_afresh()
    files = [write_voyages(port, month) for port in PORTS for month in MONTHS]
    size = sum(file.stat().st_size for file in files) / 1e6
    say(f"Made {len(files)} CSV files with {ROWS * len(files):,} voyages ({size:.0f} MB) in {DATA}.")

    heading("The first run reads everything")
    first = run_tables(DEMO)
    show_run(first)
    reader = lading.open(DEMO / "warehouse" / "voyages")
    show_rows(reader)
    tonnage = lading.open(DEMO / "warehouse" / "tonnage")

    heading("Then people change things: one file edited, one deleted, one added")
    edited, deleted = DATA / "hamburg_202402.csv", DATA / "santos_202401.csv"
    edit(edited)
    deleted.unlink()
    added = write_voyages("durban", "202403")
    spoil(added, line=ROWS // 2)
    say(f"edited {edited.name} (coffee doubled), deleted {deleted.name},")
    say(f"added {added.name} (with a broken line)")
    say("\n`lading plan` says what that means, and touches nothing:")
    plan, _ = plan_tables(load(DEMO))
    show_plan(plan)

    heading("The second run does that and no more")
    before = figures(reader)
    second = run_tables(DEMO)
    show_run(second)
    show_work(second.tables[0], plan)
    held = figures(reader) == before
    reader.refresh()
    show_before_and_after(before, figures(reader), held)

    heading("The table of tonnes by port, month and cargo, made of that one, followed")
    before = tonnes_by_port(tonnage)
    tonnage.refresh()
    show(
        ("", "before", "now"), [(name, before[name], told) for name, told in tonnes_by_port(tonnage).items()]
    )
    say("Only the slots of three ports were evaluated. Why one of them?")
    command("explain", "tonnage", slot_of(tonnage, "santos"))

    heading("Is it what a rebuild from nothing gives?")
    rebuild = run_tables(another_project())
    fresh = lading.open(DEMO / "rebuild" / "warehouse" / "voyages")
    same = all_rows(reader).equals(all_rows(fresh))
    made = lading.open(DEMO / "rebuild" / "warehouse" / "tonnage")
    same = same and by_port(tonnage).equals(by_port(made))
    verdict = "every row is the same, and the tonnage too" if same else "THEY DIFFER"
    say(f"{reader.rows:,} rows here, {fresh.rows:,} in the rebuild: {verdict}.")
    times = (first.tables[0].seconds, second.tables[0].seconds, rebuild.tables[0].seconds)
    say("First run {:.1f} s (Spark's start included), second {:.1f} s, rebuild {:.1f} s.".format(*times))

    heading("The broken line is set aside, with its place and its text")
    command("quarantine", "show", "voyages")

    heading("One voyage by its key, in microseconds; what was deleted is gone")
    command("get", "voyages", "DUR-202403-000017")
    command("get", "voyages", "SAN-202401-000017")

    heading("Somebody regrets it: readers go back, and forward again")
    command("history", "voyages")
    command("rollback", "voyages", "--offset", "1")
    command("get", "voyages", "SAN-202401-000017")
    command("publish", "voyages", "--release")

    say(f"\nThe demo took {time.monotonic() - started:.0f} s. Look around: .venv/bin/lading -C {DEMO} status")
    return 0 if same and held else 1


def command(*words: str) -> None:
    """A command as people type it; what it prints is what they would see."""
    console.print("$ lading " + " ".join(words), style="dim")
    code = invoke(["-C", str(DEMO), *words])
    if code:
        sys.exit(f"`lading {' '.join(words)}` ended with {code}")


def start_afresh() -> None:
    if DEMO.exists() and not (DEMO / "lading.yaml").is_file():
        sys.exit(f"{DEMO} is there and was not made by the demo: move it away first")
    shutil.rmtree(DEMO, ignore_errors=True)
    DATA.mkdir(parents=True)
    (DEMO / "lading.yaml").write_text(CONFIG.format(root="data"), encoding="utf-8")


def another_project() -> Path:
    """The same files and the same schema, and nothing else of what was there."""
    project = DEMO / "rebuild"
    (project / "schema").mkdir(parents=True)
    shutil.copy(DEMO / "schema" / "voyages.yaml", project / "schema" / "voyages.yaml")
    (project / "lading.yaml").write_text(CONFIG.format(root="../data"), encoding="utf-8")
    return project


def write_voyages(port: str, month: str) -> Path:
    """Believable and reproducible: the chance depends on the file's name only."""
    chance = np.random.default_rng(list(f"{port}{month}".encode()))
    first_day = np.datetime64(f"{month[:4]}-{month[4:]}-01T00:00:00", "s")
    departed = first_day + np.sort(chance.integers(0, 28 * 86_400, ROWS))
    cargo = chance.integers(0, len(CARGO), ROWS)
    table = pa.table(
        {
            "voyage_id": [f"{port[:3].upper()}-{month}-{n:06d}" for n in range(ROWS)],
            "ship": SHIPS[chance.integers(0, len(SHIPS), ROWS)],
            "departed_at": departed,
            "arrived_at": departed + chance.integers(18 * 3600, 900 * 3600, ROWS),
            "cargo": CARGO[cargo],
            "tonnes": np.round(TONNES[cargo] * chance.uniform(0.3, 1.1, ROWS), 1),
        }
    )
    path = DATA / f"{port}_{month}.csv"
    pacsv.write_csv(table, path)
    return path


def edit(path: Path) -> None:
    table = pacsv.read_csv(path)
    coffee = pc.equal(table["cargo"], "coffee")
    tonnes = pc.if_else(coffee, pc.multiply(table["tonnes"], 2), table["tonnes"])
    pacsv.write_csv(table.set_column(table.schema.get_field_index("tonnes"), "tonnes", tonnes), path)


def spoil(path: Path, line: int) -> None:
    """Give a line tonnes that are no number."""
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    lines[line - 1] = lines[line - 1].rpartition(",")[0] + ",about 900\n"
    path.write_text("".join(lines), encoding="utf-8")


def run_tables(project: Path) -> RunReport:
    report = run(load(project))
    for table in report.tables:
        if table.error is not None:
            raise table.error
    return report


def figures(reader: lading.Reader) -> dict[str, str]:
    """What a reader sees of the three files that change."""
    rows = reader.scan(columns=["port", "month", "cargo", "tonnes"]).to_table()

    def of(port: str, month: str) -> pa.Table:
        return rows.filter((pc.field("port") == port) & (pc.field("month") == month))

    coffee = pc.sum(of("hamburg", "202402").filter(pc.field("cargo") == "coffee")["tonnes"]).as_py() or 0.0
    return {
        "rows in all": f"{rows.num_rows:,}",
        "coffee from Hamburg in February, tonnes (edited)": f"{coffee:,.0f}",
        "voyages from Santos in January (deleted)": f"{of('santos', '202401').num_rows:,}",
        "voyages from Durban in March (added)": f"{of('durban', '202403').num_rows:,}",
    }


def by_port(reader: lading.Reader) -> pa.Table:
    order = [(name, "ascending") for name in ("port", "month", "cargo")]
    return reader.scan().to_table().sort_by(order).combine_chunks()


def tonnes_by_port(reader: lading.Reader) -> dict[str, str]:
    """What the table made of the voyages says of the three files that change."""
    rows = by_port(reader)

    def of(port: str, month: str) -> str:
        mine = rows.filter((pc.field("port") == port) & (pc.field("month") == month))
        return f"{pc.sum(mine['tonnes']).as_py() or 0:,.0f}"

    return {
        "tonnes from Hamburg in February (edited)": of("hamburg", "202402"),
        "tonnes from Santos in January (deleted)": of("santos", "202401"),
        "tonnes from Durban in March (added)": of("durban", "202403"),
    }


def slot_of(reader: lading.Reader, port: str) -> str:
    """The slot that a port's rows are in."""
    source = reader.scan(f"port = '{port}'", ["_source"], 1).to_table()["_source"][0].as_py()
    return next(one.key for one in reader.sources() if one.id == source)


def all_rows(reader: lading.Reader) -> pa.Table:
    return reader.scan().to_table().sort_by("voyage_id").combine_chunks()


def heading(text: str) -> None:
    console.print(f"\n{text}", style="bold")


def say(text: str) -> None:
    console.print(text)


def show(columns: tuple[str, ...], rows: list[tuple[str, ...]]) -> None:
    table = Table(box=None, padding=(0, 3, 0, 0), header_style="bold")
    for column in columns:
        table.add_column(column)
    for row in rows:
        table.add_row(*row)
    console.print(table)


def show_run(report: RunReport) -> None:
    for table in report.tables:
        verdicts = ", ".join(f"{n} {name}" for name, n in table.verdicts.items() if n)
        rows = f"{table.rows_added:,} rows came, {table.rows_removed:,} left, {table.rows:,} are there"
        say(f"{table.table}: {verdicts}: {rows}.")
        say(f"{table.seconds:.1f} seconds; snapshot {table.sequence} is what readers see now.")


def show_rows(reader: lading.Reader) -> None:
    scan = reader.scan(
        where="departed_at >= '2024-02-10' and departed_at < '2024-02-11' and tonnes > 130000",
        columns=["port", "ship", "departed_at", "cargo", "tonnes"],
        limit=5,
    )
    rows = [tuple(_text(value) for value in row.values()) for row in scan.to_table().to_pylist()]
    say(f"\nReaders see {reader.rows:,} rows. Some heavy cargoes of one day in February, read without Spark:")
    show(("port", "ship", "departed", "cargo", "tonnes"), rows)
    say(f"Opened {scan.files_scanned} of {scan.files_total} files for that.")


def show_plan(plan: TablePlan) -> None:
    show(
        ("file", "verdict", "why"),
        [(f.key, f.verdict, f.reason) for f in plan.files if f.verdict != "unchanged"],
    )
    say(f"{plan.verdicts['unchanged']} files unchanged, {plan.parts_to_rewrite} parts to rewrite.")


def show_work(table: TableReport, plan: TablePlan) -> None:
    def names(verdict: str) -> str:
        return ", ".join(f.key for f in plan.files if f.verdict == verdict)

    left = f"{plan.verdicts['unchanged']} files"
    show(
        ("what", "which", "how"),
        [
            ("read", names("new"), "its rows were added"),
            ("replaced", names("changed"), "read again; its old rows left in the same commit"),
            ("retracted", names("vanished"), "its rows left"),
            ("left alone", left, "not opened"),
            ("parts", f"{table.parts_removed} out, {table.parts_added} in", "one commit, one snapshot"),
        ],
    )


def show_before_and_after(before: dict[str, str], after: dict[str, str], held: bool) -> None:
    say("\nWhat readers saw before, and see now:")
    show(("", "before", "now"), [(name, before[name], after[name]) for name in before])
    say(
        "A reader that was open all along kept its snapshot until it asked for the new one."
        if held
        else "TORN READ"
    )


def _text(value: object) -> str:
    if isinstance(value, datetime):
        return f"{value:%Y-%m-%d %H:%M}"
    return f"{value:,}" if isinstance(value, float) else str(value)


if __name__ == "__main__":
    sys.exit(main())
