"""What a table of given files is called, the pattern that finds them, and the columns in their names."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Sequence

from lading.errors import SourceError
from lading.formats.opening import COMPRESSED
from lading.sources.glob import compile_glob

_SPECIAL = re.compile(r"[*?\[]")
_TOKEN = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}(?![0-9])|[0-9]{4}-[0-9]{2}(?![0-9])|[A-Za-z]+|[0-9]+|[^A-Za-z0-9]"
)
_LONGEST = 100
# What a part of a file's name is called as a column, and the pattern that finds it.
_DATES = (
    (r"(?:19|20)\d\d-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12]\d|3[01])", r"\d{4}-\d{2}-\d{2}", "file_date"),
    (r"(?:19|20)\d\d(?:0[1-9]|1[0-2])(?:0[1-9]|[12]\d|3[01])", r"\d{8}", "file_date"),
    (r"(?:19|20)\d\d-(?:0[1-9]|1[0-2])", r"\d{4}-\d{2}", "file_month"),
    (r"(?:19|20)\d\d(?:0[1-9]|1[0-2])", r"\d{6}", "file_month"),
    (r"(?:19|20)\d\d", r"\d{4}", "file_year"),
)


def table_name(keys: Sequence[str], taken: Collection[str]) -> str:
    """From what the names of the files have in common, or else from their folder; none of those `taken`."""
    stems = [_stem(key) for key in keys]
    folder = os.path.commonpath([os.path.dirname(key) for key in keys])
    name = _words(_whole_words(stems)) or _words(os.path.basename(folder)) or "data"
    name = name[:_LONGEST].rstrip("_")
    free, number = name, 1
    while free in taken:
        number += 1
        free = f"{name[: _LONGEST - 5]}_{number}"
    return free


def _common(texts: Sequence[str]) -> str:
    """What all of them begin with."""
    least, most = min(texts), max(texts)
    other = (at for at, char in enumerate(least) if most[at : at + 1] != char)
    return least[: next(other, len(least))]


def _whole_words(texts: Sequence[str]) -> str:
    """The same without a word or a number that goes on differently."""
    if len(set(texts)) == 1:
        return texts[0]
    common = _common(texts)
    following = {text[len(common) : len(common) + 1] for text in texts}
    if any(one.isdigit() for one in following):
        common = re.sub(r"(?:[0-9]+-)*[0-9]+\Z", "", common)
    return re.sub(r"[A-Za-z]+\Z", "", common) if any(one.isalpha() for one in following) else common


def _words(text: str) -> str:
    """As a table may be called: without the date that a file's name ends with."""
    words = re.sub(r"[^a-z0-9]+", "_", text.lower()).strip("_")
    words = re.sub(r"(?:_?(?:19|20)\d\d(?:_?\d\d){0,2})+\Z", "", words).strip("_")
    return re.sub(r"\A[0-9_]+", "", words).rstrip("_")


def _stem(key: str) -> str:
    name = os.path.basename(key)
    for suffix in COMPRESSED:
        name = name.removesuffix(suffix)
    return os.path.splitext(name)[0]


def globs_of(keys: Sequence[str], others: Collection[str] = ()) -> list[str]:
    """Patterns that match the files, from wide to narrow, and none of `others`, which are another table's."""
    if len(keys) == 1:
        return [_literal(keys[0])]
    found = []
    for pattern in dict.fromkeys(_globs(keys)):
        match = compile_glob(pattern).match
        if all(map(match, keys)) and not any(map(match, others)):
            found.append(pattern)
    if found:
        return found
    raise SourceError(
        f"no pattern matches {keys[0]} and the others of its shape ({len(keys):,} files) without matching "
        "files of another shape too",
        hint="put files of one shape into a folder of their own, or add them one by one",
        file=keys[0],
    )


def _globs(keys: Sequence[str]) -> list[str]:
    """From wide to narrow."""
    folders = [os.path.dirname(key) for key in keys]
    names = [os.path.basename(key) for key in keys]
    depths = {folder.count("/") if folder else -1 for folder in folders}
    if len(set(folders)) == 1:
        base = _literal(folders[0])
    elif len(depths) == 1:
        steps = zip(*(folder.split("/") for folder in folders), strict=True)
        base = "/".join(_literal(step[0]) if len(set(step)) == 1 else "*" for step in steps)
    else:
        common = os.path.commonpath(folders)
        base = f"{_literal(common)}/**" if common else "**"
    return [f"{base}/{name}" if base else name for name in _name_globs(names)]


def _name_globs(names: Sequence[str]) -> list[str]:
    if len(set(names)) == 1:
        return [_literal(names[0])]
    prefix = _common(names)
    suffix = _common([name[::-1] for name in names])[::-1]
    suffix = suffix[max(0, len(prefix) + len(suffix) - min(map(len, names))) :]
    end = suffix[suffix.index(".") :] if "." in suffix else ""
    # A narrower one takes more of what the names have in common.
    words = _whole_words(names)
    return [
        f"{_literal(words)}*{_literal(end)}",
        *_by_tokens(names),
        f"{_literal(prefix)}*{_literal(end)}",
        f"{_literal(prefix)}*{_literal(suffix)}",
    ]


def _by_tokens(names: Sequence[str]) -> list[str]:
    """`*_[0-9][0-9][0-9][0-9].csv`: words and numbers that differ, each by itself."""
    tokens = [_TOKEN.findall(name) for name in names]
    if len({len(one) for one in tokens}) != 1:
        return []
    loose, strict = [], []
    for values in zip(*tokens, strict=True):
        same = len(set(values)) == 1
        lengths = {len(value) for value in values}
        digits = all(value.isdigit() for value in values) and len(lengths) == 1
        loose.append(_literal(values[0]) if same else "*")
        strict.append(_literal(values[0]) if same else "[0-9]" * lengths.pop() if digits else "*")
    return ["".join(loose), "".join(strict)]


def _literal(text: str) -> str:
    return _SPECIAL.sub(lambda match: f"[{match[0]}]", text)


def name_pattern(keys: Sequence[str], columns: Collection[str]) -> str | None:
    """A regular expression for `columns_from_name`: dates and words in which the names of files differ."""
    names = [os.path.basename(key) for key in keys]
    tokens = [_TOKEN.findall(name) for name in names]
    if len(set(names)) < 2 or len({len(one) for one in tokens}) != 1:
        return None
    out: list[str] = []
    used: list[str] = []
    for values in zip(*tokens, strict=True):
        if len(set(values)) == 1:
            out.append(re.escape(values[0]).replace(r"\-", "-").replace(r"\_", "_"))
            continue
        found = _varying(values)
        if found is None:
            return None
        shape, name = found
        if name is None:
            out.append(shape)
            continue
        free = name if name not in used else f"{name}_{used.count(name) + 1}"
        used.append(name)
        if free in columns:
            return None
        out.append(f"(?P<{free}>{shape})")
    return "".join(out) if used else None


def _varying(values: Sequence[str]) -> tuple[str, str | None] | None:
    for test, shape, name in _DATES:
        if all(re.fullmatch(test, value) for value in values):
            return shape, name
    if all(value.isdigit() for value in values):
        return r"\d+", None  # a mere number: of a part, or a page
    if all(value.isalpha() for value in values):
        lower = all(value.islower() for value in values)
        return ("[a-z]+" if lower else "[A-Za-z]+"), "file_name"
    return None
