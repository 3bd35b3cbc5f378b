"""A gate's questions, answered from counts where counts tell, and from rows where they don't."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pytest
from support.world import SCHEMA, World

from lading.checks.gate import ask_gate
from lading.checks.measure import null_count
from lading.checks.table import check_table
from lading.config.gate import Gate, NullLimit
from lading.errors import ConfigError
from lading.model import Check, Member
from lading.parts.footer import Origin
from lading.parts.write import PartWriter
from lading.state.members import MemberStore


class State:
    """Members with chosen rows, as a snapshot would list them."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.members: list[Member] = []

    def part(self, ids: list[int | None], notes: list[str | None] | None = None, source: int = 1) -> Member:
        run = self.world.table()
        writer = PartWriter(str(self.world.root), 0, SCHEMA, Origin(run.table_id, "r", "c", None))
        notes = notes if notes is not None else ["x"] * len(ids)
        writer.write(pa.table([ids, notes, [source] * len(ids)], schema=SCHEMA))
        run.close()
        self.members.append(writer.close())
        return self.members[-1]

    def store(self) -> MemberStore:
        table = self.world.table()
        state = table.state
        for number, member in enumerate(self.members):
            state.added[member.path] = (number, member)
        meta = msgspec.structs.replace(state.meta, schema=SCHEMA.serialize().to_pybytes())
        con = sqlite3.connect(":memory:", isolation_level=None)
        state.settled().write_root(con, meta)
        table.close()
        return MemberStore(con, str(self.world.root))


@pytest.fixture
def state(tmp_path: Path) -> State:
    return State(World(tmp_path / "project"))


def no_spark() -> Any:
    raise AssertionError("Spark was asked for")


def failures(gate: Gate, new: MemberStore, seen: MemberStore | None = None, **facts: Any) -> list[str]:
    return ask_gate(gate, new, seen, facts, no_spark).failures


def hide(state: State) -> None:
    """No part can be read any more."""
    for member in state.members:
        (state.world.root / member.path).unlink()


def test_rows_that_drop_or_grow_too_much_are_told_from_the_log_alone(state: State) -> None:
    state.part(list(range(100)))
    before = state.store()
    state.members = []
    state.part(list(range(89)))
    after = state.store()
    hide(state)
    [told] = failures(Gate(max_drop=0.1), after, before)
    assert told == "rows dropped by 11%, from 100 to 89; rows.max_drop is 10%"
    assert failures(Gate(max_drop=0.11), after, before) == []
    [told] = failures(Gate(max_grow=0.1), before, after)
    assert "grew by 12.36%" in told
    assert failures(Gate(max_drop=0.0, max_grow=0.0), after, after) == []


def test_a_first_snapshot_has_nothing_to_be_compared_with(state: State) -> None:
    state.part([1], [None])
    gate = Gate(max_drop=0.0, max_grow=0.0, nulls={"note": NullLimit(max_increase=0.0)})
    assert failures(gate, state.store()) == []


def test_nulls_are_counted_by_zones_without_reading_a_part(state: State) -> None:
    state.part([1, 2, 3, 4], ["a", None, None, "b"])
    state.part([5, 6], [None, None])
    new = state.store()
    hide(state)
    assert null_count(new, "note") == 4
    [told] = failures(Gate(nulls={"note": NullLimit(max=0.5)}), new)
    assert told == "66.67% of note is null; at most 50% is allowed"
    assert failures(Gate(nulls={"note": NullLimit(max=0.67)}), new) == []


def test_rows_that_no_longer_count_are_not_counted_as_nulls(state: State) -> None:
    first = state.part([1, 2, 3], ["a", None, None], source=1)
    state.members[0] = msgspec.structs.replace(first, minus=(1,))
    second = state.part([4, 5], [None, "b"], source=2)
    assert null_count(state.store(), "note") == 1
    (state.world.root / second.path).unlink()  # its zone tells; only the part with a minus has to be read
    assert null_count(state.store(), "note") == 1


def test_nulls_may_rise_by_so_much_and_no_more(state: State) -> None:
    state.part([1, 2, 3, 4], ["a", "b", "c", None])
    before = state.store()
    state.part([5, 6, 7, 8], ["a", "b", None, None])
    after = state.store()
    gate = Gate(nulls={"note": NullLimit(max_increase=0.1)})
    [told] = failures(gate, after, before)
    assert (
        told
        == "nulls in note rose from 25% to 37.5% of its rows; at most 10 percentage points more are allowed"
    )
    assert failures(gate, after, before, nulls={"note": 2}) == [], "what the last gate counted is believed"


def test_a_key_that_two_rows_have_is_found_wherever_they_lie(state: State) -> None:
    state.part([1, 2, 3])
    assert failures(Gate(unique=("id",)), state.store()) == []
    state.part([3, 4])
    assert failures(Gate(unique=("id",)), state.store()) == ["id is not unique: more than one row has id=3"]


def test_a_check_and_a_gate_name_the_same_key(state: State) -> None:
    state.part([9, 4, 7, 9])
    state.part([7, 4, 4])
    [told] = failures(Gate(unique=("id",)), state.store())
    check = Check("unique", "n", "k", 1, columns=("id",))
    [result] = check_table([check], state.store(), no_spark)
    assert (result.failed, result.sample) == (4, ("id=4", "id=7", "id=9"))
    assert told == "id is not unique: more than one row has id=4"


def test_two_nulls_are_no_repeated_key(state: State) -> None:
    state.part([1, None, None])
    assert failures(Gate(unique=("id",)), state.store()) == []
    state.part([7, 7], ["a", "b"])
    assert failures(Gate(unique=("id", "note")), state.store()) == []


def test_only_new_parts_and_those_their_keys_reach_into_are_read_for_uniqueness(state: State) -> None:
    far = state.part([1, 2, 3])
    state.part([100, 101])
    seen = state.store()
    (state.world.root / far.path).unlink()
    state.part([102, 103])
    new = state.store()
    assert failures(Gate(unique=("id",)), new, seen, unique=["id"]) == []
    state.part([101, 104])
    assert failures(Gate(unique=("id",)), state.store(), seen, unique=["id"]) != []


def test_an_expression_that_zones_prove_opens_no_part(state: State) -> None:
    state.part([1, 2, 3])
    new = state.store()
    hide(state)
    assert failures(Gate(sql=("id >= 1 and note is not null",)), new) == []


def test_an_expression_fails_where_it_is_false_and_not_where_it_is_null(state: State) -> None:
    state.part([1, 2, None], ["a", "b", "c"])
    assert failures(Gate(sql=("id > 0",)), state.store()) == []
    [told] = failures(Gate(sql=("id > 1",)), state.store())
    assert told == "sql: `id > 1` is false for at least one row (id=1)"


def test_a_column_that_is_not_there_is_named_with_those_that_are(state: State) -> None:
    state.part([1])
    for gate in (Gate(unique=("nope",)), Gate(nulls={"nope": NullLimit(0.1)})):
        with pytest.raises(ConfigError, match="nope") as caught:
            failures(gate, state.store())
        assert "id (int64)" in caught.value.hint


def test_what_the_gate_found_is_kept_for_the_next_one(state: State) -> None:
    state.part([1, 2], ["a", None])
    gate = Gate(unique=("id",), nulls={"note": NullLimit(1.0)})
    assert ask_gate(gate, state.store(), None, {}, no_spark).facts == {"nulls": {"note": 1}, "unique": ["id"]}
