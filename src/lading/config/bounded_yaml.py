"""The one loader of YAML: whoever wrote the file, reading it takes no more than the file is worth.

A few hundred bytes of anchors, aliases and merge keys can stand for more values than a machine has room
for, and nesting can go deeper than Python's stack. Both end here, with the line, before anything is built.
"""

from __future__ import annotations

from typing import Any

import yaml

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
