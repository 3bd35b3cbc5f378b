"""YAML that remembers its lines, so that every complaint about lading.yaml can say where.

PyYAML's loader throws positions away; its composer keeps them. What comes out here is plain values
with a line each, the environment filled in and duplicate keys reported. Only the safe types of YAML
exist: a tag that would build a Python object is an error like any other.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import yaml

_VARIABLE = re.compile(r"\$(\$\{)|\$\{(?:([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\})?")
_TEXT_TAG = "tag:yaml.org,2002:str"
_PLAIN_TAGS = ("tag:yaml.org,2002:map", "tag:yaml.org,2002:seq")
_MERGE_TAG = "tag:yaml.org,2002:merge"


@dataclass(frozen=True, slots=True)
class Line:
    """One YAML node: `value` is a scalar, a list of lines or a dict of lines by key."""

    value: Any
    line: int
    text: str | None = None  # a scalar as written, the environment filled in
    from_env: bool = False  # a plain scalar with a variable in it: its text counts where text is wanted


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing wrong with the file. `key` is dotted (`tables.voyages.format`), empty for the whole file."""

    line: int
    key: str
    text: str


def read_lines(text: str, environ: Mapping[str, str] | None = None) -> tuple[Line | None, list[Problem]]:
    """Parse one YAML document. The root is None when it is empty or can't be parsed at all."""
    loader = BoundedLoader("")
    try:
        loader = BoundedLoader(text)
        root = loader.get_single_node()
        if root is None:
            return None, [Problem(1, "", "the file is empty")]
        converter = _Converter(loader, os.environ if environ is None else environ)
        return converter.convert(root, ""), converter.problems
    except yaml.reader.ReaderError as error:
        return None, [Problem(1, "", f"not a text file: {error.reason} at position {error.position}")]
    except yaml.MarkedYAMLError as error:
        return None, [_parse_problem(error)]
    finally:
        loader.dispose()


def _parse_problem(error: yaml.MarkedYAMLError) -> Problem:
    mark = error.problem_mark or error.context_mark
    context = f" ({error.context})" if error.context else ""
    return Problem(mark.line + 1 if mark else 1, "", f"not valid YAML: {error.problem}{context}")


class _Converter:
    def __init__(self, loader: yaml.SafeLoader, environ: Mapping[str, str]) -> None:
        self._loader = loader
        self._environ = environ
        self._done: dict[yaml.Node, Line] = {}  # an alias is converted once, however often it is used
        self.problems: list[Problem] = []

    def convert(self, node: yaml.Node, key: str) -> Line:
        if node in self._done:
            return self._done[node]
        self._done[node] = line = self._convert(node, key)
        return line

    def _convert(self, node: yaml.Node, key: str) -> Line:
        at = node.start_mark.line + 1
        if not isinstance(node, yaml.ScalarNode) and node.tag not in _PLAIN_TAGS:
            self._complain(node, key, f"the tag {node.tag} is not allowed")
        if isinstance(node, yaml.MappingNode):
            return Line(self._mapping(node, key), at)
        if isinstance(node, yaml.SequenceNode):
            return Line([self.convert(item, f"{key}[{i}]") for i, item in enumerate(node.value)], at)
        assert isinstance(node, yaml.ScalarNode)
        return self._scalar(node, key)

    def _mapping(self, node: yaml.MappingNode, key: str) -> dict[str, Line]:
        self._report_duplicates(node, key)
        self._loader.flatten_mapping(node)  # `<<: *base`; what is written out comes after and wins
        found: dict[str, Line] = {}
        for name_node, value_node in node.value:
            if not isinstance(name_node, yaml.ScalarNode):
                self._complain(name_node, key, "a key must be a plain word")
                continue
            # The text as written, so that `null:` and `on:` are keys like any other.
            name = name_node.value
            value = self.convert(value_node, f"{key}.{name}" if key else name)
            found[name] = Line(value.value, name_node.start_mark.line + 1, value.text, value.from_env)
        return found

    def _report_duplicates(self, node: yaml.MappingNode, key: str) -> None:
        first: dict[str, int] = {}
        for name_node, _ in node.value:
            if not isinstance(name_node, yaml.ScalarNode) or name_node.tag == _MERGE_TAG:
                continue
            name, at = name_node.value, name_node.start_mark.line + 1
            if name in first:
                where = f"{key}.{name}" if key else name
                self._complain(name_node, where, f"given twice (first on line {first[name]}); keep one")
            first.setdefault(name, at)

    def _scalar(self, node: yaml.ScalarNode, key: str) -> Line:
        at = node.start_mark.line + 1
        text = self._fill_in(node, key)
        if text == node.value:
            return Line(self._construct(node, key), at, text)
        if node.style is not None:  # quoted or block: text stays text
            return Line(text, at, text)
        tag = self._loader.resolve(yaml.ScalarNode, text, (True, False))  # type: ignore[no-untyped-call]
        filled = yaml.ScalarNode(tag, text, node.start_mark, node.end_mark)
        return Line(self._construct(filled, key), at, text, from_env=True)

    def _construct(self, node: yaml.Node, key: str) -> Any:
        try:
            return self._loader.construct_object(node)
        except ValueError as error:  # 2024-13-01 looks like a date and is none
            self._complain(node, key, f"{error}; if it is meant as text, put it in quotes")
            return None
        except (
            AttributeError,
            LookupError,
        ):  # PyYAML's answers to `!!timestamp x`, `!!bool x` and `!!int ''`
            self._complain(
                node, key, f"{_shown(node)} is not a valid {node.tag.rpartition(':')[2]}; remove the tag"
            )
            return None

    def _fill_in(self, node: yaml.Node, key: str) -> str:
        def value_of(match: re.Match[str]) -> str:
            escaped, name, default = match.groups()
            if escaped:
                return "${"
            if not name:
                self._complain(
                    node, key, "'${' without a variable name and '}'; write '$${' for a literal '${'"
                )
                return match[0]  # left as it is, so that one mistake is one complaint
            value = self._environ.get(name, "")
            if value or (default is None and name in self._environ):
                return value
            if default is None:
                self._complain(
                    node, key, f"environment variable {name} is not set; set it or write ${{{name}:-default}}"
                )
                return match[0]  # left as it is, so that one mistake is one complaint
            return str(default)

        return _VARIABLE.sub(value_of, str(node.value)) if node.tag == _TEXT_TAG else str(node.value)

    def _complain(self, node: yaml.Node, key: str, text: str) -> None:
        self.problems.append(Problem(node.start_mark.line + 1, key, text))


def _shown(node: yaml.Node) -> str:
    text = str(node.value)
    return repr(text if len(text) <= 40 else f"{text[:40]}…")


MAX_DEPTH = 100
MAX_REPEATED = 100_000  # values that all aliases of a file stand for together


class BoundedLoader(yaml.SafeLoader):
    """PyYAML's safe loader; a document beyond the bounds is a `yaml.MarkedYAMLError` like any other."""

    def __init__(self, stream: Any) -> None:
        super().__init__(stream)
        self._depth = 0
        self._repeated = 0
        self._sizes: dict[yaml.Node, tuple[int, int]] = {}  # values and levels below, aliases followed

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        event: Any = self.peek_event()  # type: ignore[no-untyped-call]
        if isinstance(event, yaml.AliasEvent):
            node = super().compose_node(parent, index)
            return self._repeat(node, event) if node is not None else None
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise _beyond(f"nested more than {MAX_DEPTH} levels deep", event)
        node = super().compose_node(parent, index)
        self._depth -= 1
        if node is not None:
            below = [self._sizes[one] for one in _children(node)]
            values = 1 + sum(values for values, _ in below)
            self._sizes[node] = values, 1 + max((levels for _, levels in below), default=0)
        return node

    def _repeat(self, node: yaml.Node, event: Any) -> yaml.Node:
        if node not in self._sizes:
            raise _beyond("an anchor that contains itself", event)
        values, levels = self._sizes[node]
        self._repeated += values
        if self._repeated > MAX_REPEATED:
            raise _beyond(f"the aliases up to here stand for more than {MAX_REPEATED:,} values", event)
        if self._depth + levels > MAX_DEPTH:
            raise _beyond(f"nested more than {MAX_DEPTH} levels deep by aliases", event)
        return node


def _children(node: yaml.Node) -> list[yaml.Node]:
    if isinstance(node, yaml.MappingNode):
        return [one for pair in node.value for one in pair]
    return list(node.value) if isinstance(node, yaml.SequenceNode) else []


def _beyond(problem: str, event: Any) -> yaml.MarkedYAMLError:
    return yaml.composer.ComposerError(None, None, problem, event.start_mark)
