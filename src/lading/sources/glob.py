"""Globs over keys: what a `path:` in the config can say.

`*` and `?` stay inside one folder, `[abc]`, `[a-z]` and `[!a]` match one character, `**` as a whole
segment matches any number of folders, none included. Names with a leading `.` or `_` are names like
any other. Patterns are split into segments, so that discovery descends only where one can match.
"""

from __future__ import annotations

import re

from lading.errors import ConfigError

ANY_FOLDERS = "**"


def glob_segments(pattern: str) -> tuple[str, ...]:
    """The pattern's folders and file name; the last one is never `**`."""
    if pattern.startswith("/"):
        raise ConfigError(
            f"the glob {pattern!r} starts with '/'",
            hint="write it relative to the table's root, and set `root` to the folder",
        )
    segments = [segment for segment in pattern.split("/") if segment not in ("", ".")]
    if ".." in segments:
        raise ConfigError(
            f"the glob {pattern!r} contains '..'",
            hint="files outside the table's root are never read: set `root` to a folder further up",
        )
    if not segments or pattern.endswith("/"):
        raise ConfigError(
            f"the glob {pattern!r} names no file",
            hint="end it with a file name, for example '*.csv' or '**/*.csv'",
        )
    if segments[-1] == ANY_FOLDERS:
        segments.append("*")
    return tuple(segments)


def compile_segment(segment: str) -> re.Pattern[str]:
    """A regular expression for one name; meant for `fullmatch`."""
    return re.compile(_segment_regex(segment), re.DOTALL)


def plain_suffix(segment: str) -> str | None:
    """The end that a name must have, and nothing else, as in `*.csv`; None for other segments."""
    return segment[1:] if re.fullmatch(r"\*[^*?\[]+", segment) else None


def compile_glob(pattern: str) -> re.Pattern[str]:
    """A regular expression for whole keys; it is anchored at both ends."""
    *folders, name = glob_segments(pattern)
    pieces = [""]  # between one `**` and the next
    for step in folders:
        if step == ANY_FOLDERS:
            pieces.append("")
        else:
            pieces[-1] += _segment_regex(step) + "/"
    pieces[-1] += _segment_regex(name)
    return re.compile(rf"\A{_with_gaps(pieces, '[^/]+/')}\Z", re.DOTALL)


def _segment_regex(segment: str) -> str:
    out = [""]  # between one star and the next
    at = 0
    while at < len(segment):
        char = segment[at]
        at += 1
        if char == "*":
            out.append("")
        elif char == "?":
            out[-1] += "[^/]"
        elif char == "[" and (end := _class_end(segment, at)) is not None:
            out[-1] += _class_regex(segment[at:end])
            at = end + 1
        else:
            out[-1] += re.escape(char)
    return _with_gaps(out, "[^/]")


def _with_gaps(pieces: list[str], gap: str) -> str:
    """The pieces one after the other, with any number of gaps in between. Where a piece first fits, it may
    stay: trying its other places as well would let a long name take longer than anybody waits."""
    first, *others = pieces
    if not others:
        return first
    *between, last = others
    found = "".join(f"(?>(?:{gap})*?{piece})" for piece in between if piece)
    return f"{first}{found}(?:{gap})*{last}"


def _class_end(segment: str, start: int) -> int | None:
    """Index of the closing bracket; one right after the opening (or its `!`) is a member."""
    first = start + 1 if segment[start : start + 1] in ("!", "^") else start
    end = segment.find("]", first + 1)
    return None if end < 0 else end


def _class_regex(body: str) -> str:
    negated = body[0] in "!^"
    members = body[1:] if negated else body
    out = []
    at = 0
    while at < len(members):
        low = members[at]
        if members[at + 1 : at + 2] == "-" and at + 2 < len(members):
            high = members[at + 2]
            if low > high:
                raise ConfigError(
                    f"the range {low}-{high} in the glob's [{body}] is backwards",
                    hint=f"write {high}-{low}",
                )
            out.append(f"{re.escape(low)}-{re.escape(high)}")
            at += 3
        else:
            out.append(re.escape(low))
            at += 1
    inner = "".join(out)
    return f"[^/{inner}]" if negated else f"(?!/)[{inner}]"
