"""Takes the pictures in docs/pictures/: `make screenshots`.

It makes a project of its own, without Spark, with some history, something pending and something set aside,
shows it with `lading ui`, and has chromium look at the pages. So pictures stay true as long as this is run.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from lading.config.file import load
from lading.run import run
from lading.ui.app import PAGES

PICTURES = Path(__file__).parent.parent / "docs" / "pictures"
WIDTH, HEIGHT = 1280, 800  # what a picture shows, in pixels
_LARGEST = 200_000  # bytes of one picture

CONFIG = """\
warehouse: warehouse
spark: {in_process_below: 1GB}
tables:
  calls:
    root: data
    path: "calls/*.csv"
    format: csv
    columns_from_name: "(?P<port>[a-z]+)_(?P<month>\\\\d{4}-\\\\d{2})\\\\.csv"
    order_by: arrived_at
    bucket_size: 30d
    on_bad: quarantine
    checks:
      - not_null: [ship]
      - range: {column: tonnes, min: 0}
      - unique: [call_id]
    gate:
      rows: {max_drop: 30%}
  ships:
    root: data
    path: "ships.csv"
    format: csv
    checks:
      - min_rows: 5
"""
# Picture: the page's name, and what to ask it for. `~1` stands for the run before the last.
SHOTS = {
    "overview": ("overview", {"now": ""}),  # with the files looked at
    "plan": ("plan", {"table": "calls"}),
    "runs": ("runs", {"table": "calls"}),
    "rows": ("rows", {"table": "calls", "where": "tonnes > 25000", "row": "2"}),
    "quarantine": ("quarantine", {"table": "calls"}),
    "layout": ("layout", {"table": "calls", "where": "arrived_at >= '2026-04-01'"}),
    "history": ("history", {"table": "calls", "before": "~1", "after": "current"}),
}
_PORTS = ("antwerp", "bergen", "hamburg", "lisbon", "piraeus", "rotterdam")
_SHIPS = ("Astrid", "Emma Maersk", "Ever Given", "Fram", "Nordic Pearl", "Santa Rita", "Wilhelmina")
_CARGO = ("containers", "crude oil", "grain", "timber")


def make_project(folder: Path) -> None:
    """Four months of calls at six ports; a correction, a deletion, two bad rows; and something to do."""
    chance = random.Random(7)
    calls = folder / "data" / "calls"
    calls.mkdir(parents=True)
    (folder / "lading.yaml").write_text(CONFIG, encoding="utf-8")
    flags = [
        f"{ship},{chance.choice(('NO', 'NL', 'DE', 'PT'))},{1990 + 3 * n}" for n, ship in enumerate(_SHIPS)
    ]
    (folder / "data" / "ships.csv").write_text(
        "ship,flag,built\n" + "\n".join(flags) + "\n", encoding="utf-8"
    )
    for month in range(1, 5):
        for number, port in enumerate(_PORTS):
            _write_calls(calls / f"{port}_2026-{month:02d}.csv", month, number, chance)
        _run(folder)
    corrected = calls / "hamburg_2026-02.csv"
    corrected.write_text(
        corrected.read_text(encoding="utf-8").replace("timber", "sawn timber"), encoding="utf-8"
    )
    (calls / "lisbon_2026-01.csv").unlink()
    with (calls / "bergen_2026-04.csv").open("a", encoding="utf-8") as out:
        out.write("9001,Fram,2026-04-28 10:00:00,-35.5,timber\n9002,,2026-04-29 07:15:00,410.0,grain\n")
    _run(folder)
    _write_calls(calls / "antwerp_2026-05.csv", 5, 0, chance)
    corrected.write_text(
        corrected.read_text(encoding="utf-8").replace("sawn timber", "timber"), encoding="utf-8"
    )
    (calls / "piraeus_2026-03.csv").unlink()


def _write_calls(path: Path, month: int, port: int, chance: random.Random) -> None:
    lines = ["call_id,ship,arrived_at,tonnes,cargo"]
    for number in range(40):
        at = datetime(2026, month, 1) + timedelta(minutes=chance.randrange(28 * 24 * 60))
        tonnes = chance.randrange(4_000, 300_000) / 10
        key = month * 10_000 + port * 1_000 + number
        lines.append(f"{key},{chance.choice(_SHIPS)},{at:%Y-%m-%d %H:%M}:00,{tonnes},{chance.choice(_CARGO)}")
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def _run(folder: Path) -> None:
    report = run(load(folder))
    if report.error is not None:
        raise report.error


@contextmanager
def shown(folder: Path) -> Iterator[str]:
    """`lading ui` at work; its address."""
    program = Path(sys.executable).parent / "lading"
    command = [str(program), "-C", str(folder), "ui", "--json", "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield str(json.loads(process.stdout.readline())["url"])
        finally:
            process.terminate()


@contextmanager
def browser(home: Path) -> Iterator[Any]:
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    program, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if program is None or driver is None:
        sys.exit("chromium and chromedriver are needed; on Debian: apt-get install chromium chromium-driver")
    options = webdriver.ChromeOptions()
    options.binary_location = program
    flags = ("--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--lang=en")
    for flag in (*flags, f"--window-size={WIDTH},{HEIGHT}", f"--user-data-dir={home}"):
        options.add_argument(flag)
    running = webdriver.Chrome(options, Service(driver, env=os.environ | {"HOME": str(home)}))
    try:
        light = {"features": [{"name": "prefers-color-scheme", "value": "light"}]}
        running.execute_cdp_cmd("Emulation.setEmulatedMedia", light)
        size = {"width": WIDTH, "height": HEIGHT, "deviceScaleFactor": 1, "mobile": False}
        running.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        yield running
    finally:
        running.quit()


def take(address: str, window: Any) -> None:
    """Each picture, whole or not at all."""
    from urllib.parse import urlencode

    origin = address.partition("/?")[0]
    paths = {page.name: page.path for page in PAGES}
    window.get(address)  # gives the browser its cookie
    for picture, (page, query) in SHOTS.items():
        window.get(f"{origin}{paths[page]}?{urlencode(query)}")
        window.implicitly_wait(5)
        image = window.get_screenshot_as_png()
        if len(image) > _LARGEST:
            sys.exit(
                f"{picture}.png has {len(image):,} bytes; more than {_LARGEST:,} are too many for a page"
            )
        (PICTURES / f"{picture}.png").write_bytes(image)
        print(f"{picture}.png: {len(image):,} bytes")


def main() -> int:
    PICTURES.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.gettempdir(), "lading-pictures")  # shown on each page, so the same every time
    shutil.rmtree(folder, ignore_errors=True)
    try:
        make_project(folder / "shipping")
        with shown(folder / "shipping") as address, browser(folder / "chromium") as window:
            take(address, window)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
