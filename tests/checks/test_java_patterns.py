"""What RE2 is told of a regular expression that is Java's."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from lading.checks.java_patterns import re2_of_java


def matched(pattern: str, *texts: str) -> list[str]:
    written = re2_of_java(pattern)
    assert written is not None, pattern
    return [text for text in texts if pc.match_substring_regex(pa.scalar(text), pattern=written).as_py()]


@pytest.mark.parametrize(
    ("pattern", "whole", "other"),
    [
        ("", [""], ["a"]),
        ("a|", ["a", ""], ["b"]),
        ("a|bc", ["a", "bc"], ["ac", "ab", "xa", "a\n"]),
        ("(a|b)c", ["ac", "bc"], ["a", "c"]),
        ("(?:ab){2}", ["abab"], ["ab"]),
        ("a{2,}", ["aa", "aaa"], ["a"]),
        ("a{1,2}?", ["a", "aa"], ["aaa"]),
        ("a+?b*?", ["a", "aab"], ["b"]),
        (".", ["a", "é", "\U0001f600", "\x0b", "\x00"], ["\n", "\r", "\x85", "\u2028", "\u2029", ""]),
        ("(?s).", ["a", "\n", "\u2028"], [""]),
        ("(?s:.)(?-s:.)", ["\na"], ["a\n"]),
        (r"\s", [" ", "\t", "\n", "\x0b", "\f", "\r"], ["\x1c", "\x85", "\xa0", "\u2028"]),
        (r"\S", ["a", "\xa0"], [" ", "\x0b"]),
        (r"\w\d", ["_1", "Z0"], ["é1", "a\u0661"]),
        (r"\W\D", ["é\u0661"], ["_1"]),
        ("(?i)k", ["k", "K"], ["\u212a"]),
        ("(?i)[^k]", ["\u212a", "a"], ["k", "K"]),
        ("(?i)[j-l]é", ["Ké"], ["KÉ"]),
        ("(?i:a)b", ["Ab"], ["AB"]),
        ("[a-c-]", ["-", "b"], ["d"]),
        ("[-a]", ["-", "a"], ["b"]),
        ("[^-a]", ["b"], ["-", "a"]),
        (r"[\d\-.$(]", ["1", "-", ".", "$", "("], ["a"]),
        (r"[^\W_]", ["a", "1"], ["_", "-"]),
        (r"[\w\W]", ["a", "\n", "\U0001f600"], [""]),
        (r"[^\w\W]", [], ["a", "\n", ""]),
        (r"[\u0041-\x43]", ["A", "C"], ["D"]),
        (r"^a$", ["a"], ["a\n", "ba"]),
        (r"\Aa\Z", ["a"], ["a\n"]),
        ("^a$|^b$", ["a", "b"], ["ab"]),
        ("(^a$)|((b$))", ["a", "b"], ["ab"]),
        ("a^b", [], ["ab", "a\nb"]),
        (r"a\.b\\", ["a.b\\"], ["axb\\"]),
        ("}]", ["}]"], ["]"]),
        ("[&]&&", ["&&&"], ["&"]),
    ],
)
def test_it_matches_what_java_matches(pattern, whole, other):
    assert matched(pattern, *whole, *other) == whole


@pytest.mark.parametrize(
    "pattern",
    [
        "(?=a)b",
        "(?!a)b",
        "(?<=a)b",
        r"(a)\1",
        "(?>a)b",
        "a++",
        "a{2}+",
        "(?P<x>a)",
        "(?<x>a)",
        "(?#a)",
        "(?m)a",
        "(?x)a",
        "(?u)a",
        r"a\b",
        r"a\B",
        r"\h",
        r"\v",
        r"\0",
        r"\Qa\E",
        r"\p{L}",
        r"\x4",
        r"\ud800",
        "[a-z&&[^b]]",
        "[a&&b]",
        "[a[b]]",
        "[]a]",
        "[^]a]",
        "[a-c-e]",
        "[--/]",
        r"[\d-x]",
        "[b-a]",
        "[a",
        "a{,2}",
        "a{2,1}",
        "a{1001}",
        "((a{100}){100}){100}",
        "a{",
        "a{x}",
        "{2}",
        "a**",
        "*a",
        "^*",
        "a$\\n",
        "(a$)b",
        "(a$|b)",
        "(a$)*",
        r"(a\Z)?",
        "a)",
        "(a",
        "a\\",
        "(" * 200 + ")" * 200,
    ],
)
def test_the_rest_is_left_to_spark(pattern):
    assert re2_of_java(pattern) is None
