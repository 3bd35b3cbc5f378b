"""How many of the awkward files in tests/formats/sniff/corpus.py come out right: `lading add` beside DuckDB.

python scripts/sniff.py               the two numbers, and what each gets wrong
python scripts/sniff.py NAME          only the files with this in their names
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))


def main(wanted: str = "") -> int:
    from formats.sniff.corpus import CASES  # type: ignore[import-not-found]
    from formats.sniff.judge import judge_duckdb, judge_lading  # type: ignore[import-not-found]

    cases = [case for case in CASES if wanted in case.name]
    right = {"lading": 0, "duckdb": 0}
    for case in cases:
        for name, judge in (("lading", judge_lading), ("duckdb", judge_duckdb)):
            with tempfile.TemporaryDirectory() as folder:
                wrong = judge(case, Path(folder))
            right[name] += not wrong
            if wrong:
                print(f"{name:<8}{case.name}: {wrong}")
    print(f"of {len(cases)} files, lading reads {right['lading']} right and DuckDB {right['duckdb']}")
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
