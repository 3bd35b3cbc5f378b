"""Where tables and manifests go and how that place is reached: `warehouse:`, `store:`, `s3:`, `postgres:`.

A URL may carry a password and `s3:` carries keys: complaints about them never repeat the value.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

from lading.config.section import Section
from lading.layout.project import WAREHOUSE
from lading.model import Place
from lading.secrets import holds_secret

S3_KEYS = ("endpoint", "region", "access_key_id", "secret_access_key", "session_token", "allow_http")
POSTGRES_KEYS = ("prefix", "builds", "shards", "pointer")
POSTGRES_SCHEMES = ("postgresql", "postgres")
BUCKETS = ("s3", "gs", "az")
SCHEMES = (*BUCKETS, *POSTGRES_SCHEMES, "file", "memory")
# Where the credentials of a bucket belong that has no section of its own.
ENVIRONMENT = {
    "gs": "credentials come from GOOGLE_APPLICATION_CREDENTIALS, or from the machine's own account",
    "az": "the account comes from AZURE_STORAGE_ACCOUNT_NAME, its key from AZURE_STORAGE_ACCOUNT_KEY",
}

_POSTGRES_URL = "postgresql://user:password@host/database"
_MISTYPED = re.compile(r"\s*(?:postgres(?:ql)?|s3|gs|az|file|memory)(?::|//)", re.IGNORECASE)
_KEYWORDS = re.compile(r"\s*(?:host|hostaddr|port|dbname|user|password|service|passfile)\s*=", re.IGNORECASE)
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")


@dataclass(frozen=True, slots=True)
class PostgresNames:
    """How a table's three tables are called in Postgres; `{table}` stands for the table's name."""

    prefix: str = "lading"
    builds: str = "{prefix}_{table}_builds"
    shards: str = "{prefix}_{table}_shards"
    pointer: str = "{prefix}_{table}_pointer"


def scheme_of(text: str) -> str:
    """`s3` of `s3://…`, empty for a path."""
    match = _SCHEME.match(text)
    return match[1].lower() if match else ""


def store_url(project: Path, section: Section) -> str | None:
    """What `store:` says: a URL, or an absolute path; None when manifests lie with the data."""
    text = section.checked("store", url_problem)
    if text is None or scheme_of(text) not in ("", "file"):
        return text
    return _folder(project, local_path(text), "store", section)


def warehouse(project: Path, section: Section, s3: dict[str, str], cache: Path) -> Place:
    """What `warehouse:` says: a folder, or a place in a bucket."""
    text = section.checked("warehouse", _warehouse_problem) or WAREHOUSE
    if scheme_of(text) in BUCKETS:
        options = tuple(sorted(s3.items())) if scheme_of(text) == "s3" else ()
        return Place(text.rstrip("/"), options, str(cache))
    return Place(_folder(project, text, "warehouse", section))


def _folder(project: Path, text: str, key: str, section: Section) -> str:
    folder = os.path.abspath(project / Path(text).expanduser())
    if os.path.isfile(folder):
        section.complain(key, "is a file; name a folder, or move the file out of the way")
    return folder


def _warehouse_problem(text: str) -> str | None:
    if scheme_of(text) not in ("", *BUCKETS):
        return f"{scheme_of(text)}:// can't hold tables; use a folder or s3://bucket/prefix"
    return url_problem(text)


def local_path(text: str) -> str:
    """The path of `file:///…`; a path is one already."""
    return unquote(urlsplit(text).path) if scheme_of(text) == "file" else text


def url_problem(text: str) -> str | None:
    """What is wrong with the URL of a store, without repeating what could be a password."""
    scheme = scheme_of(text)
    if not text.strip():
        return "is empty; give a folder or a URL"
    if scheme and scheme not in SCHEMES:
        return f"{scheme}:// is unknown; use a folder, s3://bucket/prefix or postgresql://host/database"
    if not scheme and almost_url(text):
        return f"is neither a folder nor a URL; write s3://bucket/prefix or {_POSTGRES_URL}"
    try:
        parts = urlsplit(text)
        parts.port  # noqa: B018 (a port that is no number raises only when it is asked for)
    except ValueError:
        return "is not a URL; write special characters in user and password as %XX"
    if scheme in POSTGRES_SCHEMES and re.search(r"\s", text):
        return "has a space in it; write special characters in user and password as %XX"
    if scheme in BUCKETS and (not parts.netloc or "@" in text or parts.query or parts.fragment):
        keys = ENVIRONMENT.get(scheme, "put keys in s3:, the environment or the AWS files")
        return f"must be {scheme}://bucket/prefix; {keys}"
    if scheme == "file" and (parts.netloc not in ("", "localhost") or not parts.path):
        return "must be file:///folder"
    if scheme in POSTGRES_SCHEMES and (
        "@" in text.replace(parts.netloc, "", 1) or parts.netloc.count("@") > 1
    ):
        return f"must be {_POSTGRES_URL}; write @ / # ? in user and password as %XX"
    return None


def almost_url(text: str) -> bool:
    """A URL that was mistyped, or libpq's `host=… password=…`: as a folder's name, it would be shown."""
    return bool(mistyped_url(text) or _KEYWORDS.match(text) or holds_secret(text))


def mistyped_url(text: str) -> bool:
    """`s3//…`, `postgres:/…`: it begins as a URL of ours, and is none."""
    return _MISTYPED.match(text) is not None


def s3_options(section: Section) -> dict[str, str]:
    """The options that were given; what is left out comes from the environment and the AWS files."""
    s3 = section.section("s3", S3_KEYS)
    found = {name: _plain(s3, name) for name in s3.lines if name in S3_KEYS}
    if found.get("allow_http") not in (None, "true", "false"):
        s3.complain("allow_http", "must be true or false")
    if (found.get("endpoint") or "").startswith("http://") and found.get("allow_http") != "true":
        s3.complain("endpoint", "is not encrypted; if that is intended, set allow_http: true")
    return {name: text for name, text in found.items() if text is not None}


def _plain(section: Section, name: str) -> str | None:
    """The value as written, a key of digits too: a complaint about its type would have to show it."""
    line = section.lines[name]
    if line.text is None or not line.text.strip() or line.value is None:
        section.complain(name, "must be text; remove this key if there is none")
        return None
    return str(line.value).lower() if isinstance(line.value, bool) else line.text


def postgres_names(section: Section, tables: int) -> PostgresNames:
    names = section.section("postgres", POSTGRES_KEYS)
    given = {name: names.checked(name, _empty) for name in POSTGRES_KEYS}
    for name in POSTGRES_KEYS[1:]:
        text = given[name]
        if text is not None and "{table}" not in text and tables > 1:
            names.complain(name, "would be shared by several tables; include {table} in it")
    return PostgresNames(**{name: text for name, text in given.items() if text is not None})


def _empty(text: str) -> str | None:
    return None if text.strip() else "is empty; remove this key"
