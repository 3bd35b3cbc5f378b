"""Write realistic shipping voyages to data/voyages: one CSV file per port and day.

    python make_sample_data.py            # 4 ports, 3 days
    python make_sample_data.py --days 30

The same arguments give the same files, so running it again changes only their times.
"""

import argparse
import csv
import random
from datetime import date, datetime, timedelta
from pathlib import Path

PORTS = {
    "rotterdam": ("Felixstowe", "New York", "Santos", "Singapore"),
    "hamburg": ("Gothenburg", "Gdynia", "Shanghai", "Felixstowe"),
    "santos": ("Rotterdam", "Durban", "Algeciras", "New York"),
    "singapore": ("Colombo", "Busan", "Rotterdam", "Melbourne"),
}
SHIPS = ("Aurora", "Bernhardine", "Coral Wind", "Dorothea", "Ever North", "Fjordland", "Gulden", "Halcyon")
CARGO = {"containers": 21_000, "grain": 48_000, "iron ore": 120_000, "coffee": 9_000, "machinery": 6_500}
COLUMNS = ("voyage_id", "ship", "destination", "departed_at", "arrived_at", "cargo", "tonnes")


def voyages(port: str, day: date, count: int) -> list[tuple[object, ...]]:
    chance = random.Random(f"{port} {day}")
    rows: list[tuple[object, ...]] = []
    for number in range(count):
        departed = datetime.combine(day, datetime.min.time()) + timedelta(minutes=chance.randrange(24 * 60))
        arrived = departed + timedelta(hours=chance.uniform(18, 900))
        cargo = chance.choice(list(CARGO))
        tonnes = round(CARGO[cargo] * chance.uniform(0.3, 1.1), 1)
        voyage = f"{port[:3].upper()}-{day:%Y%m%d}-{number:04d}"
        ship, destination = chance.choice(SHIPS), chance.choice(PORTS[port])
        rows.append((voyage, ship, destination, departed, arrived.replace(microsecond=0), cargo, tonnes))
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--days", type=int, default=3)
    parser.add_argument("--rows", type=int, default=200, help="voyages in each file")
    options = parser.parse_args()
    folder = Path(__file__).parent / "data" / "voyages"
    folder.mkdir(parents=True, exist_ok=True)
    for port in PORTS:
        for offset in range(options.days):
            day = date(2024, 3, 1) + timedelta(days=offset)
            with open(folder / f"{port}_{day:%Y%m%d}.csv", "w", newline="", encoding="utf-8") as file:
                writer = csv.writer(file)
                writer.writerow(COLUMNS)
                writer.writerows(voyages(port, day, options.rows))
    print(f"wrote {len(PORTS) * options.days} files to {folder}")


if __name__ == "__main__":
    main()
