"""The machine is asked for the time and for chance in one place each: whoever plays histories on another
clock has all of it in hand."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).parent.parent / "src" / "lading"
ASKS = {
    "clock.py": {
        "time.time",
        "time.time_ns",
        "time.monotonic",
        "time.sleep",
        "datetime.now",
        "datetime.utcnow",
    },
    "ids.py": {"os.urandom", "uuid.uuid4", "random.random"},
}


def _asked(tree: ast.AST) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            yield node.lineno, f"{node.value.id}.{node.attr}"


@pytest.mark.parametrize("place", sorted(ASKS))
def test_nobody_else_asks_the_machine(place: str) -> None:
    found = [
        f"{file.relative_to(SOURCE)}:{line}: {name}"
        for file in sorted(SOURCE.rglob("*.py"))
        for line, name in _asked(ast.parse(file.read_text()))
        if name in ASKS[place] and file != SOURCE / place
    ]
    assert found == []
