"""Prints what the seeds promise and whether it holds: one line an id, then `pass` or `fail`, then its tests.

Tests say which ids they show with `@pytest.mark.acceptance("C1", "C2")`; only those are run. An id
passes when it has a test and every one of its tests passed. pytest's own report goes to stderr, and the ids
that don't pass come last there. Exit code 1 unless every id passes: one without a test has not been shown.
"""

from __future__ import annotations

import os
import sys
from collections import defaultdict
from pathlib import Path

import pytest

# Source manifests, table manifests, snapshot manifests, stores, collections, and Iceberg
# (tests/iceberg/ACCEPTANCE.md).
IDS = [
    f"{letter}{n + 1}"
    for letter, count in zip("FCMSTI", (28, 28, 24, 27, 22, 15), strict=True)
    for n in range(count)
]


class AcceptancePlugin:
    """Keeps the marked tests and notes how each of them ended."""

    def __init__(self) -> None:
        self.tests: dict[str, set[str]] = defaultdict(set)  # id -> test names
        self._names: dict[str, str] = {}  # node id -> test name
        self._passed: dict[str, bool] = {}  # test name -> all of its cases passed

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        kept: list[pytest.Item] = []
        left_out: list[pytest.Item] = []
        for item in items:
            ids = [str(one) for mark in item.iter_markers("acceptance") for one in mark.args]
            (kept if ids else left_out).append(item)
            name = getattr(item, "originalname", None) or item.name
            self._names[item.nodeid] = name
            for one in ids:
                if one not in IDS:
                    raise pytest.UsageError(f"{item.nodeid}: there is no acceptance id {one!r}")
                self.tests[one].add(name)
        config.hook.pytest_deselected(items=left_out)
        items[:] = kept

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        name = self._names[report.nodeid]
        if report.failed or report.skipped:
            self._passed[name] = False
        elif report.when == "call":
            self._passed.setdefault(name, True)

    def passes(self, one: str) -> bool:
        names = self.tests.get(one, set())
        return bool(names) and all(self._passed.get(name, False) for name in names)

    def line(self, one: str) -> str:
        names = sorted(self.tests.get(one, ()))
        if not names:
            return f"{one} fail (no test)"
        return " ".join([one, "pass" if self.passes(one) else "fail", *names])


def main() -> int:
    plugin = AcceptancePlugin()
    stdout = os.dup(1)
    os.dup2(2, 1)
    try:
        tests = Path(__file__).parent.parent / "tests"
        code = pytest.main(["-q", str(tests), *sys.argv[1:]], plugins=[plugin])
    finally:
        os.dup2(stdout, 1)
    for one in IDS:
        print(plugin.line(one))
    missing = [one for one in IDS if not plugin.tests.get(one)]
    failed = [one for one in IDS if one not in missing and not plugin.passes(one)]
    for what, ids in (("no test", missing), ("fail", failed)):
        if ids:
            print(f"{what}: {' '.join(ids)}", file=sys.stderr)
    return 1 if missing or failed or code != pytest.ExitCode.OK else 0


if __name__ == "__main__":
    sys.exit(main())
