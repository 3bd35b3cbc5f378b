from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lading.errors import ConfigError
from lading.sources.glob import compile_glob


def _matches(pattern: str, key: str) -> bool:
    return compile_glob(pattern).match(key) is not None


@pytest.mark.parametrize(
    ("pattern", "key", "expected"),
    [
        ("*.csv", "a.csv", True),
        ("*.csv", "x/a.csv", False),
        ("*.csv", ".a.csv", True),
        ("*.csv", "_a.csv", True),
        ("*.csv", "a.csv\n", False),
        ("*.csv", "a\nb.csv", True),
        ("**/*.csv", "a.csv", True),
        ("**/*.csv", "x/y/a.csv", True),
        ("a/**/b.csv", "a/b.csv", True),
        ("a/**/b.csv", "a/x/y/b.csv", True),
        ("a/**/b.csv", "ab.csv", False),
        ("a/**", "a/b/c", True),
        ("a/**", "a", False),
        ("**", "a/b", True),
        ("?.csv", "é.csv", True),
        ("?.csv", ".csv", False),
        ("a?b", "a/b", False),
        ("[ab].csv", "b.csv", True),
        ("[!ab].csv", "b.csv", False),
        ("[^ab].csv", "c.csv", True),
        ("x[!a]y", "x/y", False),
        ("x[+-9]y", "x/y", False),
        ("[]]", "]", True),
        ("[!]]", "]", False),
        ("[a-]", "-", True),
        ("a[1].csv", "a1.csv", True),
        ("a[[]1].csv", "a[1].csv", True),
        ("a[1.csv", "a[1.csv", True),
        ("a.csv", "aXcsv", False),
        ("a**b", "axxb", True),
        ("a**b", "a/b", False),
        ("./data//x.csv", "data/x.csv", True),
        ("[\\d]", "\\", True),
        ("[\\d]", "5", False),
        ("A.csv", "a.csv", False),
    ],
)
def test_a_glob_matches_as_the_page_says(pattern: str, key: str, expected: bool) -> None:
    assert _matches(pattern, key) is expected


@pytest.mark.parametrize("pattern", ["/etc/*", "../x.csv", "a/../../x", "", "data/", "[z-a].csv"])
def test_a_glob_that_can_match_nothing_below_the_root_is_refused(pattern: str) -> None:
    with pytest.raises(ConfigError) as caught:
        compile_glob(pattern)
    assert caught.value.hint


def _oracle(pattern: list[str], key: list[str]) -> bool:
    """The definition, by recursion over segments, as slow as it likes."""
    if not pattern:
        return not key
    head, rest = pattern[0], pattern[1:]
    if head == "**":
        if not rest:
            return bool(key)
        return _oracle(rest, key) or (len(key) > 1 and _oracle(pattern, key[1:]))
    return bool(key) and _name(head, key[0]) and _oracle(rest, key[1:])


def _name(pattern: str, name: str) -> bool:
    if not pattern:
        return not name
    if pattern[0] == "*":
        return _name(pattern[1:], name) or (bool(name) and _name(pattern, name[1:]))
    return bool(name) and pattern[0] in ("?", name[0]) and _name(pattern[1:], name[1:])


_segment = st.one_of(
    st.just("**"), st.text("ab.*?", min_size=1, max_size=4).filter(lambda s: s not in (".", ".."))
)
_names = st.text("ab.", min_size=1, max_size=3)


@given(st.lists(_segment, min_size=1, max_size=4), st.lists(_names, min_size=1, max_size=4))
def test_globs_agree_with_their_definition(pattern: list[str], key: list[str]) -> None:
    assert _matches("/".join(pattern), "/".join(key)) is _oracle(pattern, key)
