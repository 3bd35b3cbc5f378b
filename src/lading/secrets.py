"""What must not be shown: the one function that takes secrets out of a text.

URLs carry passwords and tokens, and a library that fails on one repeats it. Every error of lading is made
from text that went through here, and so is every line of its logs and records.
"""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import urlsplit

_MASK = "***"

# user:password@ behind `scheme://`, and behind the ways to mistype that. `password` is what hints say.
_USERINFO = re.compile(
    r"((?:(?<![A-Za-z0-9+.-])[A-Za-z][A-Za-z0-9+.-]*+:/{1,3}|//|\b(?:postgres(?:ql)?|s3)[:/])[^\s/:@'\"]*+):"
    r"(?!password@)"
)
_WORD = re.compile(r"\S+")
# `;token=…` of Spark Connect, `?password=…` of a URL, `password = '…'` of libpq, `X-Amz-Signature=…` of S3.
_KEY = re.compile(r"(?<![\w.-])([\w.-]++)(\s*+)=\s*+")
# A quote inside of a value is a part of it; one at its end, and what a sentence puts behind that, is not.
_VALUE = re.compile(r"'(?:[^'\\]|\\.)*'|\"[^\"]*\"|[^\s;&]+?(?=['\"]?[]),.:]{0,3}(?:[\s;&]|\Z))")
_SECRET_KEY = re.compile(
    r"password|passwd|passfile|token|secret|signature|credential|authorization|access[_-]?key|api[_-]?key"
    r"|^pwd$|^sig$|^x-amz-",
    re.IGNORECASE,
)
_BEARER = re.compile(r"(\bBearer\s+)[^\s'\",;]+", re.IGNORECASE)


def hide(text: str) -> str:
    """`text` with every password, token and key in it as `***`; a text without any as it is."""
    if "@" in text:
        text = _WORD.sub(_without_password, text)
    if "=" in text:
        text = _without_values(text)
    return _BEARER.sub(rf"\1{_MASK}", text)


def holds_secret(text: str) -> bool:
    return hide(text) != text


def bare(url: str) -> str:
    """Scheme, host and path: what is left of a URL when nothing that could be a secret is."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


def hide_within(value: Any) -> Any:
    """The same for all texts in what is to become JSON or YAML."""
    if isinstance(value, str):
        return hide(value)
    if isinstance(value, dict):
        return {name: hide_within(one) for name, one in value.items()}
    return [hide_within(one) for one in value] if isinstance(value, (list, tuple)) else value


def _without_password(word: re.Match[str]) -> str:
    """A password of any length and with any sign in it: it ends at the word's last @."""
    text, end = word[0], word[0].rfind("@")
    found = _USERINFO.search(text) if end >= 0 else None
    return f"{text[: found.end()]}{_MASK}{text[end:]}" if found is not None and found.end() <= end else text


def _without_values(text: str) -> str:
    pieces, done = [], 0
    for found in _KEY.finditer(text):
        # With spaces around it, it is libpq's; other words before ` = ` are likelier to be SQL.
        key, spaced = found[1], bool(found[2])
        if found.end() < done or not _SECRET_KEY.search(key) or (spaced and "password" not in key.lower()):
            continue
        value = _VALUE.match(text, found.end())
        if value is not None:
            pieces += [text[done : found.end()], _MASK]
            done = value.end()
    return "".join([*pieces, text[done:]])
