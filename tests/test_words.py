"""Counts as people read them."""

from __future__ import annotations

import pytest

from lading.words import count_words


@pytest.mark.parametrize(
    ("count", "said"), [(0, "0 rows"), (1, "1 row"), (2, "2 rows"), (1_234_567, "1,234,567 rows")]
)
def test_only_one_is_singular(count, said):
    assert count_words(count, "row") == said


def test_the_verb_follows_the_number():
    assert count_words(1, "part is", "parts are") == "1 part is"
    assert count_words(0, "part is", "parts are") == "0 parts are"
