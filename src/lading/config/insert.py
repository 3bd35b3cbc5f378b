"""New tables in the text of lading.yaml: everything that people wrote there stays as it is, to the byte.

YAML's own writers lose comments, order and quotes. So the text is only opened where the last table ends, and
what comes out is read again: it must say the same as before, and the new tables.
"""

from __future__ import annotations

from collections.abc import Mapping

import yaml

from lading.config.yaml import BoundedLoader
from lading.errors import ConfigError
from lading.layout.project import CONFIG

_MARK = "\ufeff"
_START = """\
# lading keeps these tables true to their files. `lading plan` shows what a run would do; `lading run`
# does it. All keys are in docs/guide.md. ${NAME} and ${NAME:-default} work in any value.

warehouse: warehouse              # where tables are written

tables:
"""


def with_tables(text: str | None, blocks: Mapping[str, str]) -> str:
    """The text with `blocks` behind its last table; each is a table's lines, indented from 0 on. Without a
    text, a new one."""
    if text is None:
        return _START + "\n".join(_indented(block, 2) for block in blocks.values())
    mark = _MARK if text.startswith(_MARK) else ""
    lines = text.removeprefix(_MARK).splitlines(keepends=True)
    end = "\r\n" if any(line.endswith("\r\n") for line in lines) else "\n"
    if lines and not lines[-1].endswith(("\n", "\r")):
        lines[-1] += end
    at, indent = _place(lines)
    new = "\n" + "\n".join(_indented(block, indent) for block in blocks.values())
    if at is None:
        at, new = len(lines), f"\ntables:{new}"
    if at and not lines[at - 1].strip():
        new = new.removeprefix("\n")
    if at < len(lines) and lines[at].strip():
        new += "\n"
    return mark + "".join([*lines[:at], new.replace("\n", end), *lines[at:]])


def _indented(block: str, by: int) -> str:
    return "".join(" " * by + line if line.strip() else line for line in block.splitlines(keepends=True))


def _place(lines: list[str]) -> tuple[int | None, int]:
    """The line before which tables are put, and how far in; None for a text without `tables`."""
    try:
        root = yaml.compose("".join(lines), Loader=BoundedLoader)
    except yaml.YAMLError as error:
        raise _unfit(f"it is not valid YAML: {getattr(error, 'problem', None) or error}") from error
    if root is None:
        return None, 2
    if not isinstance(root, yaml.MappingNode) or root.flow_style:
        raise _unfit("it is not a mapping of one key a line")
    for key, value in root.value:
        if key.value == "tables":
            return _end_of(lines, key, value)
    return None, 2


def _end_of(lines: list[str], key: yaml.Node, value: yaml.Node) -> tuple[int, int]:
    if isinstance(value, yaml.ScalarNode) and value.value in ("", "~", "null"):
        if value.value:
            raise _unfit(f"`tables` is {value.value}; remove that word")
        return key.start_mark.line + 1, 2
    if not isinstance(value, yaml.MappingNode):
        raise _unfit("`tables` is not a mapping")
    if value.flow_style and not value.value and value.start_mark.line == value.end_mark.line:
        line, begin, end = value.start_mark.line, value.start_mark.column, value.end_mark.column
        lines[line] = lines[line][:begin].rstrip() + lines[line][end:]
        return line + 1, 2
    if value.flow_style:
        raise _unfit("`tables` is written in braces; write its tables on lines of their own")
    indent = value.start_mark.column
    last = max(_last_line(child) for pair in value.value for child in pair)
    at = last + 1
    # Comments that are as far in as the tables' keys still belong to the last of them.
    for number in range(at, len(lines)):
        line = lines[number]
        if not line.strip():
            continue
        if not line.lstrip().startswith("#") or len(line) - len(line.lstrip(" ")) <= indent:
            break
        at = number + 1
    return at, indent


def _last_line(node: yaml.Node) -> int:
    """Of the text itself: marks of mappings reach to the next key, beyond blanks and comments."""
    if isinstance(node, yaml.CollectionNode) and not node.flow_style and node.value:
        children = (
            [one for pair in node.value for one in pair] if isinstance(node, yaml.MappingNode) else node.value
        )
        return max(_last_line(child) for child in children)
    mark = node.end_mark
    ends_before = mark.column == 0 and mark.line > node.start_mark.line
    return mark.line - 1 if ends_before else mark.line


def _unfit(why: str) -> ConfigError:
    return ConfigError(
        f"{CONFIG} can't take a table: {why}",
        hint="with `--dry-run`, the table is shown and you can paste it yourself",
        file=CONFIG,
    )
