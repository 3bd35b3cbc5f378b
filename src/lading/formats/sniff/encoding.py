"""Which encoding a text is in. UTF-8 proves itself; anything older is chosen by what it would spell.

Nearly every sequence of bytes is valid in an encoding with a byte a character, so validity says little. What
people write says more: an `ü` between two lower-case letters is likelier than a `Ý`, or a piece of a frame.
"""

from __future__ import annotations

import codecs
import re
import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from lading.formats.magic import wide_encoding

_HEAD = 512
_KEPT = 4_000  # lines that are looked at to tell old encodings apart
_LONGEST = 16 << 20  # bytes of a line
_SHARE = 10  # so many good characters for one bad line make a UTF-8 text with bad lines
_MARGIN = 0.05  # a reading has to be better by this to be preferred to Windows-1252's
_LEAST = 0.5  # what words reach is close to 1

_LATIN = set("àáâãäåæçèéêëìíîïñòóôõöøùúûüýßœšžÀÁÂÄÅÆÇÈÉÊÍÎÑÓÔÖØÚÜŒŠŽ")
_CENTRAL = set("ąćęłńóśźżáčďéěíňřšťúůýžőűäöüĄĆĘŁŃÓŚŹŻČĎĚŇŘŠŤŮŽŐŰÁÉÍÚÖÜß")
_CYRILLIC = {chr(code) for code in range(0x410, 0x450)} | {"ё", "Ё", "і", "ї", "є"}
_MARKS = set("‘’“”„‚–—…€°²³§©®™½¼¾«»·•£µ±×\xa0¿¡ºª№")

# Tried in this order; of equals the first wins.
_CANDIDATES: tuple[tuple[str, set[str]], ...] = (
    ("windows-1252", _LATIN),
    ("windows-1250", _CENTRAL),
    ("windows-1251", _CYRILLIC),
    ("koi8-r", _CYRILLIC),
    ("mac-roman", _LATIN),
    ("cp850", _LATIN),
    ("shift_jis", set()),
    ("euc-jp", set()),
    ("gb18030", set()),
    ("big5", set()),
    ("euc-kr", set()),
)
_EAST_ASIAN = frozenset(name for name, usual in _CANDIDATES if not usual)


@dataclass(frozen=True, slots=True)
class Encoding:
    """`name` is None where nothing fits; `because` then says what was tried."""

    name: str | None
    because: str
    ascii: bool = False  # so that it reads the same in most other encodings
    bad_lines: int = 0  # whose bytes are not of the encoding


def encoding_of(blocks: Iterable[bytes]) -> Encoding:
    """The encoding of a text that comes in blocks, the first of which has its beginning."""
    lines = _whole_lines(blocks)
    first = next(lines, b"")
    wide = wide_encoding(first[:_HEAD])
    if wide is not None:
        marked = first.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
        marked = marked or first.startswith((codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE))
        return Encoding(wide, "byte order mark" if marked else "every other byte of its letters is 0")
    tally = _Tally()
    tally.see(first)
    for block in lines:
        tally.see(block)
    mark = " with a byte order mark" if first.startswith(codecs.BOM_UTF8) else ""
    if not tally.bad:
        if not tally.good:
            return Encoding("utf-8", f"ASCII{mark}", ascii=True)
        return Encoding("utf-8", f"valid UTF-8{mark}, with {tally.good:,} characters beyond ASCII")
    if mark or tally.good >= _SHARE * tally.bad:
        return Encoding(
            "utf-8",
            f"{tally.good:,} characters beyond ASCII are UTF-8, but {tally.bad:,} lines are not",
            bad_lines=tally.bad,
        )
    return _old(b"\n".join(tally.kept))


def _whole_lines(blocks: Iterable[bytes]) -> Iterator[bytes]:
    """The same bytes in blocks that end with a line, so that no character is cut."""
    held = b""
    for block in blocks:
        end = max(block.rfind(b"\n"), block.rfind(b"\r")) + 1
        if end or len(held) > _LONGEST:
            yield held + block[:end]
            held = block[end:]
        else:
            held += block
    if held:
        yield held


class _Tally:
    def __init__(self) -> None:
        self.good = 0  # characters beyond ASCII that are UTF-8
        self.bad = 0  # lines that are not
        self.kept: list[bytes] = []  # lines with bytes beyond ASCII

    def see(self, block: bytes) -> None:
        if block.isascii():
            return
        try:
            text = block.decode()
            self.good += _beyond_ascii(text)
            return
        except UnicodeDecodeError:
            pass
        for line in re.split(rb"\r\n|\r|\n", block):
            if line.isascii():
                continue
            try:
                self.good += _beyond_ascii(line.decode())
            except UnicodeDecodeError:
                self.bad += 1
            if len(self.kept) < _KEPT:
                self.kept.append(line)


def _beyond_ascii(text: str) -> int:
    return len(text) - len(text.encode("ascii", errors="ignore"))


def _old(data: bytes) -> Encoding:
    """The encoding of lines that are not UTF-8."""
    found: list[tuple[float, str, str]] = []
    for name, usual in _CANDIDATES:
        try:
            text = data.decode(name)
        except UnicodeDecodeError:
            continue
        found.append((_likelihood(text, usual), name, text))
    found.sort(key=lambda one: -one[0])  # stable: of equals the one that was tried first
    close = [one for one in found if one[0] >= _LEAST and found[0][0] - one[0] <= _MARGIN]
    if not close:
        tried = ", ".join(["utf-8", *(name for name, _ in _CANDIDATES)])
        return Encoding(None, f"its bytes read as words in none of {tried}")
    best = next((one for one in close if one[1] == "windows-1252"), close[0])
    others = [one for one in close if _example(one[2]) != _example(best[2])]
    if best[1] in _EAST_ASIAN and others:
        said = " and ".join(f"as {_example(text)} in {name}" for _, name, text in [best, *others][:3])
        return Encoding(None, f"it reads {said}")
    doubt = f" ({others[0][1]} would read {_example(others[0][2])})" if others else ""
    return Encoding(best[1], f"not UTF-8; reads {_example(best[2])}{doubt}")


def _likelihood(text: str, usual: set[str]) -> float:
    """How much the characters beyond ASCII look like somebody's words: from -1 to 1."""
    total, count = 0.0, 0
    for match in re.finditer(r"[^\x00-\x7f]", text):
        at = match.start()
        total += _weight(match[0], text[at - 1 : at], text[at + 1 : at + 2], usual)
        count += 1
    return total / count if count else 0.0


def _weight(char: str, before: str, behind: str, usual: set[str]) -> float:
    if char in usual:
        odd = (char.isupper() and before.islower()) or (char.islower() and behind.isupper())
        odd = odd or (usual is _CYRILLIC and any(one.isascii() and one.isalpha() for one in before + behind))
        alone = not before.isalpha() and not behind.isalpha()
        return -1.0 if odd else 0.3 if alone else 1.0
    if char in _MARKS:
        inside = before.isalpha() and behind.isalpha() and char not in "’·–—"
        return -1.0 if inside else 0.9
    name = unicodedata.name(char, "")
    if name.startswith(("CJK", "HIRAGANA", "KATAKANA", "HANGUL", "FULLWIDTH", "IDEOGRAPHIC")):
        if usual or any(one.isascii() and one.isalpha() for one in before + behind):
            return -1.0
        # Signs stand in runs; one beside nothing is an accident. Kana are the only ones that are never one.
        if "HALFWIDTH" in name or (before + behind).isascii():
            return 0.3
        return 1.0 if name.startswith(("HIRAGANA", "KATAKANA")) else 0.8
    return -0.2 if char.isalpha() else -1.0


def _example(text: str) -> str:
    """The first word with a character beyond ASCII."""
    match = re.search(r"[\w'’-]*[^\x00-\x7f][\w'’-]*", text)
    return repr(match[0][:30]) if match else "''"
