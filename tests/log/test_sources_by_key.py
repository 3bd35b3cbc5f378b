"""Sources one by one in the order of their keys, however they got into the table."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from lading.log.table import Table
from tests.log.test_table import commit, source


@pytest.mark.parametrize("checkpoint_at", [None, 3, 11, 19])
def test_sources_come_in_key_order_as_if_nothing_had_been_checkpointed(
    tmp_path: Path, checkpoint_at: int | None
) -> None:
    random.seed(5)
    table = Table.create(tmp_path / "t", "t")
    model: dict[int, tuple[str, int]] = {}
    for step in range(20):
        read = random.sample(range(60), 7)
        gone = [number for number in random.sample(sorted(model), min(3, len(model))) if number not in read]
        names = {number: f"{number * 7919 % 1000}-é{number}.csv" for number in read}
        table.commit(commit(f"c{step}", sources=tuple(source(n, names[n]) for n in read), gone=tuple(gone)))
        model |= {n: (names[n], step + 1) for n in read}
        for number in gone:
            del model[number]
        if step == checkpoint_at:
            table.checkpoint()
    told = [(one.key, sequence) for one, sequence in table.state.sources_by_key()]
    assert told == sorted(model.values())
    assert dict(told) == {key: sequence for key, (_, sequence) in table.state.sources().items()}


def test_a_table_without_sources_has_none(tmp_path: Path) -> None:
    table = Table.create(tmp_path / "t", "t")
    assert list(table.state.sources_by_key()) == []
    table.checkpoint()
    assert list(table.state.sources_by_key()) == []
