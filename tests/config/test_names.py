"""Which column a header is: a function of the header and of lading.yaml alone."""

from __future__ import annotations

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lading.config.names import EXACT, Naming, case_clash, folded, snaked
from lading.model import ColumnRule

NAMES = st.text(st.sampled_from("aAbBÉéßİΣςǅ1_-. \t  /s") | st.characters(exclude_categories=["Cs"]))


@pytest.mark.parametrize(
    ("header", "fold", "snake"),
    [
        ("Amount", "amount", "amount"),
        ("  Order  ID ", "order id", "order_id"),
        ("orderID", "orderid", "order_id"),
        ("order-id", "order-id", "order_id"),
        ("HTTPServerID", "httpserverid", "http_server_id"),
        ("customerIDs", "customerids", "customer_ids"),
        ("CO2Emissions", "co2emissions", "co2_emissions"),
        ("Country/Region", "country/region", "country_region"),
        ("Order Date (UTC)", "order date (utc)", "order_date_utc"),
        ("Größe", "größe", "größe"),
        ("लागत राशि", "लागत राशि", "लागत_राशि"),
        ("Cafe\u0301", "caf\u00e9", "caf\u00e9"),
        ("_id", "_id", "id"),
        ("%", "%", "%"),
    ],
)
def test_a_header_is_folded_or_made_a_snake(header: str, fold: str, snake: str) -> None:
    assert (folded(header), snaked(header)) == (fold, snake)


@given(NAMES)
def test_a_name_that_is_made_stays_as_it_is(name: str) -> None:
    for make in (folded, snaked):
        assert make(make(name)) == make(name)


@given(NAMES)
def test_headers_that_fold_alike_are_the_same_column(name: str) -> None:
    for how in ("fold", "snake"):
        naming = Naming(how)
        assert naming.column_of(f" {name}\t") == naming.column_of(name)
        assert naming.column_of(folded(name)) == naming.column_of(naming.column_of(folded(name)))


@given(NAMES)
def test_a_columns_own_name_is_the_column(name: str) -> None:
    rules = (ColumnRule("Total", headers=("Sum", "ΣX")),)
    for how in ("exact", "fold", "snake"):
        naming = Naming.of(how, rules)
        column = naming.column_of(name)
        assert naming.column_of(column) == column


def test_headers_of_from_mean_the_column_as_lading_yaml_spells_it() -> None:
    rules = (ColumnRule("Amount", headers=("AMT", "Amount in EUR")),)
    exact, fold, snake = (Naming.of(how, rules) for how in ("exact", "fold", "snake"))
    assert [exact.column_of(one) for one in ("Amount", "AMT", "amt", "x")] == ["Amount", "Amount", "amt", "x"]
    assert [fold.column_of(one) for one in ("AMOUNT", "amt ", "amount  in eur", "X")] == [
        *["Amount"] * 3,
        "x",
    ]
    assert snake.column_of("amountInEUR") == "Amount"


def test_the_schemas_spelling_counts_where_lading_yaml_has_none() -> None:
    naming = Naming.of("fold", (ColumnRule("amount"),)).knowing(("Amount", "Port No"))
    assert [naming.column_of(one) for one in ("AMOUNT", "PORT NO", "x")] == ["amount", "Port No", "x"]
    assert EXACT.knowing(("Amount",)).column_of("amount") == "amount"


def test_names_that_differ_only_in_case_are_alike() -> None:
    assert case_clash(("a", "B", "c")) is None
    assert case_clash(("a", "B", "A", "b")) == ("a", "A")
    assert case_clash(("straße", "STRASSE")) is None, "Spark can tell these apart"


def test_it_travels() -> None:
    naming = Naming.of("fold", (ColumnRule("Amount", headers=("AMT",)),))
    again = pickle.loads(pickle.dumps(naming))
    assert again == naming
    assert again.column_of("amt") == "Amount"
