"""Patterns mean what Python's `re` says they mean, and never take longer than a moment."""

import re

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lading.config.patterns import names_of, re2_of
from lading.errors import SourceError
from lading.model import FoundFile
from lading.sources.glob import compile_glob
from lading.sources.names import columns_from_name

ATOMS = [
    r"a",
    r"b",
    r".",
    r"\.",
    r"_",
    r"-",
    r"[ab]",
    r"[^a]",
    r"[a-c-]",
    r"[[:a]",
    r"[]b]",
    r"[^]b]",
    r"\d",
    r"\w",
    r"\s",
    r"\D",
    r"\W",
    r"\S",
    r"[\d_]",
    r"[\w.]",
    r"[^\W]",
    r"[^\s]",
    r"[a\W]",
    r"[\S\s]",
    r"\-",
    r"\x41",
    r"é",
    r"\u00e9",
    r"\t",
    r"{",
    r"}",
    r"a{,2}",
    r"(?i:A)",
    r"(?s:.)",
    r"^",
    r"$",
    r"\Z",
    r"\A",
]
PIECES = st.recursive(
    st.sampled_from(ATOMS),
    lambda inner: st.one_of(
        st.tuples(inner, inner).map("".join),
        st.tuples(inner, inner).map(lambda two: f"(?:{two[0]}|{two[1]})"),
        # A group that may be empty, repeated: `re` reports its last, empty turn, RE2 the one before.
        st.tuples(inner, st.sampled_from(["?", "{1,2}", "{2}", "??"])).map(
            lambda two: f"(?:{two[0]}){two[1]}"
        ),
        inner.map(lambda one: f"({one})"),
        st.sampled_from(["a*", "[ab]+", "b*?", ".+?", r"\w{1,3}", r"\d*"]),
    ),
    max_leaves=8,
)
TEXTS = st.text("abAB_-.1 \t\n{}[]:é٣²ǅ", max_size=8)


def of_re2(pattern: str, text: str) -> list[str] | None:
    [found] = pc.extract_regex(pa.array([text]), re2_of(pattern)).to_pylist()
    return None if found is None else list(found.values())


@pytest.mark.filterwarnings("ignore:Possible nested set:FutureWarning")
@settings(deadline=None)
@given(before=PIECES, inside=PIECES, after=PIECES, texts=st.lists(TEXTS, min_size=1, max_size=5))
def test_a_pattern_gives_what_python_would(before: str, inside: str, after: str, texts: list[str]) -> None:
    pattern = f"{before}(?P<x>{inside}){after}"
    try:
        python = re.compile(pattern)
    except re.error:
        return
    for text in texts:
        if "$" in pattern and text.endswith("\n"):
            continue  # to `re` a `$` is also before a newline at the end
        match = python.fullmatch(text)
        expected = None if match is None else [match["x"] or ""]
        assert of_re2(pattern, text) == expected, (pattern, text)


@pytest.mark.parametrize(
    ("pattern", "why"),
    [
        (r"(?P<a>x)(?=y)", "lookahead"),
        (r"(?P<a>x)(?<!y)z", "negative lookahead and lookbehind"),
        (r"(?P<a>x)(?P=a)", "earlier group"),
        (r"(?P<a>x)\1", "earlier group"),
        (r"(?P<a>x)?(?(a)y|z)", "conditions"),
        (r"(?P<a>(?>x))", "atomic"),
        (r"(?P<a>x++)", "possessive"),
        (r"(?P<a>x\b)", "write the characters themselves"),
        (r"(?P<a>x{1001})", "a repeat count may be at most 1000"),
        (r"(?a)(?P<a>x)", "only the flags (?i)"),
        (r"(?P<a>[^a\W])", "such as [a-z]"),
        (r"(?P<a>", "not a regular expression"),
        ("(?P<a>x)" + "(" * 5000 + ")" * 5000, "nested"),
        ("(?P<a>x)" + "(" * 200 + ")" * 200, "nested more than 100 deep"),
    ],
)
def test_what_can_not_be_matched_in_time_is_refused_with_a_sentence(pattern: str, why: str) -> None:
    with pytest.raises(ValueError, match=re.escape(why)):
        re2_of(pattern)


def test_names_may_be_any_that_python_allows() -> None:
    files = [FoundFile("köln_7.csv", "/x", 1, 1, False)]
    pattern = r"(?P<straße>\w+)_(x|(?P<_n>\d))\.csv"
    assert names_of(pattern) == ("straße", "_n")
    assert columns_from_name(pattern, files) == {"köln_7.csv": {"straße": "köln", "_n": "7"}}


@pytest.mark.parametrize(
    "pattern", [r"(?P<x>(a+)+)", r"(?P<x>(a|aa)+)", r"(?P<x>(.*a){25})", r"(?P<x>(a*)*)b"]
)
def test_a_hostile_name_is_refused_in_a_moment(pattern: str) -> None:
    with pytest.raises(SourceError, match="does not match"):
        columns_from_name(pattern, [FoundFile("a" * 200 + "!", "/x", 1, 1, False)])


@pytest.mark.parametrize("glob", ["*a" * 30 + "*b", "**/a/" * 20 + "b", "**/*a*a*/" * 10 + "*a*a*b"])
def test_a_hostile_key_is_told_from_a_glob_in_a_moment(glob: str) -> None:
    assert not compile_glob(glob).match("a" * 250)
    assert not compile_glob(glob).match("a/" * 250 + "a")
    assert not compile_glob(glob).match("aaaa/" * 100 + "aaaa")
