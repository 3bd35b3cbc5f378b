"""Which names in an archive may become files.

An archive is somebody else's word. Each name is taken apart and put together again from plain segments,
so that nothing in it can leave the folder. Harmless noise (`./a`, `a//b`) is dropped; a name that means
something else elsewhere is refused and not repaired, since two readers might repair it differently.
"""

from __future__ import annotations

import re
import unicodedata

from lading.layout.project import INDEX

_DRIVE = re.compile(r"[A-Za-z]:")
# Names that Windows opens as devices, whatever their suffix.
_DEVICE = re.compile(r"(?:con|prn|aux|nul|com[0-9¹²³]|lpt[0-9¹²³])(?:\..*)?", re.IGNORECASE | re.DOTALL)
_MAX_SEGMENT = 255  # bytes; what a file system takes
_MAX_PATH = 1_024
_MAX_DEPTH = 100


class BadName(ValueError):
    """Why a name is refused, in words."""


def safe_name(name: str) -> str:
    """The name as a relative path of plain segments, "" for the top folder itself; BadName otherwise."""
    problem = _problem(name)
    if problem is not None:
        raise BadName(problem)
    segments = [segment for segment in name.split("/") if segment not in ("", ".")]
    if segments and segments[0] == INDEX:
        raise BadName("is a name reserved for lading")
    return "/".join(segments)


def same_name(name: str) -> str:
    """What two names have in common that look alike: Unicode writes one é in two ways."""
    return unicodedata.normalize("NFC", name)


def _problem(name: str) -> str | None:
    try:
        encoded = name.encode()
    except UnicodeEncodeError:
        return "is not valid UTF-8"
    if not name:
        return "is empty"
    if any(ord(char) < 32 or ord(char) == 127 for char in name):
        return "contains control characters"
    if name.startswith("/"):
        return "is an absolute path"
    if "\\" in name:
        return "contains a backslash, which separates folders on Windows"
    segments = name.split("/")
    if ".." in segments:
        return "contains '..' and could leave the folder"
    if len(encoded) > _MAX_PATH or len(segments) > _MAX_DEPTH:
        return "is too long or too deep"
    return next((problem for segment in segments if (problem := _segment_problem(segment))), None)


def _segment_problem(segment: str) -> str | None:
    if len(segment.encode()) > _MAX_SEGMENT:
        return f"has a part of more than {_MAX_SEGMENT} bytes"
    if _DRIVE.match(segment):
        return "starts with a Windows drive"
    if _DEVICE.fullmatch(segment.rstrip(" .")):
        return "is a device name on Windows"
    return None
