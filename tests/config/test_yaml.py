"""libyaml is quicker: with it or without it, a file means the same, and the same is said of it."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from hypothesis import example, given, settings
from hypothesis import strategies as st

from lading.config import yaml as ours
from lading.config.yaml import BoundedLoader, compose, construct, read_lines

_PIECES = [
    *"\t\n :-?,[]{}#&*!|>'\"%@`ab01~.\r\\$<=", "\u2028", "\x85", "\ufeff", "\x07", "\ud800", "é",
    "\U0001f600", "- ", ": ", "\n  ", "\n    ", "!!str ", "&a ", "*a", "<<: *a", "---\n", "...\n", "? ",
    "''", '""',
    "|\n  ", ">-\n  ", "tables:\n  t: ", "{path: ", "x: [1, ", "# y\n", "2024-01-01", "1_000", "null",
    "a: b\n",
]  # fmt: skip
_texts = st.lists(st.sampled_from(_PIECES), max_size=20).map("".join)


def _shown(node: yaml.Node | None, seen: dict[int, int]) -> Any:
    """All that a loader can tell by: tags, values, styles, lines, and what is an alias of what."""
    if node is None or id(node) in seen:
        return None if node is None else seen[id(node)]
    seen[id(node)] = len(seen)
    head = type(node), node.tag, node.start_mark.line
    if isinstance(node, yaml.ScalarNode):
        return *head, node.value, node.style or None
    if isinstance(node, yaml.MappingNode):
        return *head, [(_shown(key, seen), _shown(value, seen)) for key, value in node.value]
    return *head, [_shown(one, seen) for one in node.value]


def _composed(how: Any, text: str) -> Any:
    try:
        return _shown(how(text), {})
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        return str(error.problem), mark and (mark.line, mark.column)
    except (yaml.YAMLError, UnicodeError) as error:
        return str(error)


@settings(max_examples=500)
@given(_texts)
@example("a\t: 1")
@example("a: !x")
@example("[? a]")
@example("{a: b?}")
@example("a: >#\n")
@example("---\n#")
@example("x: {a:\n , b}")
@example("a: '1")
@example("a: [")
@example("&a [*a]")
@example("[" * 101)
def test_a_text_is_composed_as_pyyaml_itself_does(text: str) -> None:
    expected = _composed(lambda one: yaml.compose(one, Loader=BoundedLoader), text)
    assert _composed(compose, text) == expected


@pytest.mark.skipif(ours.CParser is None, reason="PyYAML has no libyaml here")
def test_a_plain_file_is_composed_by_libyaml(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ours, "BoundedLoader", None)
    root = compose('tables:\n  t: {path: "x/*.csv", sql: "select a from b where c > 1"}\n')
    assert isinstance(root, yaml.MappingNode)


def test_without_libyaml_it_is_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "a: 1\nb: [x, 2024-01-01, ${HOME_PORT}, '${HOME_PORT}']\n"
    found, values = read_lines(text, {"HOME_PORT": "7"}), construct("a: 1\nb: [x, 2024-01-01]\n")
    monkeypatch.setattr(ours, "CParser", None)
    assert read_lines(text, {"HOME_PORT": "7"}) == found
    assert construct("a: 1\nb: [x, 2024-01-01]\n") == values
