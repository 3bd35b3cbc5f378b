"""YAML that remembers its lines, so that every complaint about lading.yaml can say where.

PyYAML's loader throws positions away; its composer keeps them. What comes out here is plain values
with a line each, the environment filled in and duplicate keys reported. Only the safe types of YAML
exist: a tag that would build a Python object is an error like any other.

libyaml, where PyYAML was built with it, reads the same in a fifth of the time. Where the two don't agree
(tabs, tags, `?`) and where there is something to complain about, PyYAML's own parser has the word: what a
file means, and what is said of it, is the same on every machine.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import yaml
from yaml.composer import Composer
from yaml.resolver import Resolver

try:
    from yaml._yaml import CParser
except ImportError:  # PyYAML without libyaml
    CParser = None  # type: ignore[assignment, misc]

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
    try:
        root = compose(text)
        if root is None:
            return None, [Problem(1, "", "the file is empty")]
        converter = _Converter(BoundedLoader(""), os.environ if environ is None else environ)
        return converter.convert(root, ""), converter.problems
    except yaml.reader.ReaderError as error:
        return None, [Problem(1, "", f"not a text file: {error.reason} at position {error.position}")]
    except yaml.MarkedYAMLError as error:
        return None, [_parse_problem(error)]


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
        if node.style:  # quoted or block: text stays text
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


class _Bounded(Composer):
    """A document beyond the bounds is a `yaml.MarkedYAMLError` like any other."""

    peek_event: Callable[[], Any]  # the parser's
    _depth = 0
    _repeated = 0

    def compose_document(self) -> yaml.Node | None:
        self._sizes: dict[yaml.Node, tuple[int, int]] = {}  # values and levels below, aliases followed
        return super().compose_document()

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        event: Any = self.peek_event()
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


class BoundedLoader(_Bounded, yaml.SafeLoader):
    """PyYAML's safe loader, with bounds."""


# Where libyaml takes what PyYAML refuses, or takes it for something else, or to be on another line.
_DISPUTED = re.compile(
    r"[\t\r\x85\u2028\u2029\ufeff?]|(?:^|[\s\[{,:-])!|^%|^---|[>|]\S*\s*#|:\s*\n\s*[,}\]]", re.MULTILINE
)


if CParser is not None:

    class _Quick(_Bounded, CParser, Resolver):
        def __init__(self, text: str) -> None:
            CParser.__init__(self, text)
            Composer.__init__(self)
            Resolver.__init__(self)


def compose(text: str) -> yaml.Node | None:
    """The one document in `text`, as `yaml.compose` gives it, within bounds."""
    if CParser is not None and not _DISPUTED.search(text):
        try:
            return _Quick(text).get_single_node()
        except (yaml.YAMLError, UnicodeError):
            pass  # said below
    return yaml.compose(text, Loader=BoundedLoader)


def construct(text: str) -> Any:
    """The plain values in `text`, as `yaml.safe_load` gives them, within bounds."""
    root = compose(text)
    return None if root is None else BoundedLoader("").construct_document(root)


def _children(node: yaml.Node) -> list[yaml.Node]:
    if isinstance(node, yaml.MappingNode):
        return [one for pair in node.value for one in pair]
    return list(node.value) if isinstance(node, yaml.SequenceNode) else []


def _beyond(problem: str, event: Any) -> yaml.MarkedYAMLError:
    return yaml.composer.ComposerError(None, None, problem, event.start_mark)
