"""An object store through obstore: S3 and whatever speaks its protocol.

Conditional writes are the store's own (`If-None-Match`, `If-Match`), so many writers on many machines
need no lock. Credentials come from the options given, else from the environment and the usual AWS
chain; they are never part of a URL, an error or a log line.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from lading.errors import ConfigError, MissingExtra, StorageError, bare
from lading.layout.beside import fresh_temporary
from lading.storage.credentials import from_files
from lading.storage.protocol import Named, SwapLost

_CHUNK = 8 << 20
# A cut connection is tried again at once, a server that is gone is given up on after some seconds.
RETRY = {
    "max_retries": 5,
    "retry_timeout": timedelta(seconds=60),
    "backoff": {"init_backoff": timedelta(milliseconds=100), "max_backoff": timedelta(seconds=5), "base": 2},
}
OPTIONS = ("endpoint", "region", "access_key_id", "secret_access_key", "session_token", "allow_http")


class TooLarge(StorageError):
    """The object is longer than the caller is ready for."""


class ObjectStorage:
    """A bucket and a prefix in it."""

    def __init__(self, url: str, options: Mapping[str, str] | None = None) -> None:
        parts = urlsplit(url)
        if parts.scheme != "s3" or not parts.netloc or parts.username or parts.query:
            raise ConfigError(
                f"{bare(url)!r} is not an s3://bucket/prefix", hint="write it as s3://bucket/prefix"
            )
        self._prefix = parts.path.strip("/")
        self.url = f"s3://{parts.netloc}/{self._prefix}".rstrip("/")
        self._obstore, self._store = _connect(parts.netloc, self._prefix, dict(options or {}))

    def get(self, name: str, *, limit: int | None = None) -> bytes:
        return self.get_with_etag(name, limit=limit)[0]

    def get_with_etag(self, name: str, *, limit: int | None = None) -> tuple[bytes, str]:
        """`limit` refuses a longer object before its content is fetched."""
        with self._translated(name):
            result = self._obstore.get(self._store, name)
            self._check_size(name, result.meta, limit)
            return bytes(result.bytes()), str(result.meta["e_tag"] or "")

    async def get_async(self, name: str, *, limit: int | None = None) -> bytes:
        with self._translated(name):
            result = await self._obstore.get_async(self._store, name)
            self._check_size(name, result.meta, limit)
            return bytes(await result.bytes_async())

    def get_range(self, name: str, start: int, length: int, *, etag: str | None = None) -> bytes:
        """With `etag`, only of that very object: StorageError when another lies there by now."""
        with self._translated(name):
            if etag is None:
                return bytes(self._obstore.get_range(self._store, name, start=start, length=length))
            options: Any = {"range": (start, start + length), "if_match": etag}
            result = self._obstore.get(self._store, name, options=options)
            if str(result.meta["e_tag"] or "") == etag:
                return bytes(result.bytes())
        raise StorageError(
            f"{self.url}/{name} was replaced while it was being read",
            hint="somebody else wrote it: look at the bucket",
        )

    def head(self, name: str) -> Named:
        with self._translated(name):
            return _named(self._obstore.head(self._store, name))

    def put_new(self, name: str, data: bytes, *, content_type: str | None = None) -> None:
        attributes = {"Content-Type": content_type} if content_type else None
        with self._translated(name):
            self._obstore.put(
                self._store, name, data, mode="create", attributes=attributes, use_multipart=False
            )

    def put(self, name: str, data: bytes, *, content_type: str | None = None) -> None:
        """Create or replace, whole: for what is never the truth, such as reports."""
        attributes = {"Content-Type": content_type} if content_type else None
        with self._translated(name), self._unconditional(name):
            self._obstore.put(self._store, name, data, attributes=attributes, use_multipart=False)

    def swap(self, name: str, data: bytes, etag: str | None, *, content_type: str | None = None) -> str:
        mode: Any = "create" if etag is None else {"e_tag": etag}
        attributes = {"Content-Type": content_type} if content_type else None
        kinds = self._obstore.exceptions
        lost = (kinds.AlreadyExistsError, kinds.PreconditionError, kinds.NotFoundError)
        with self._translated(name):
            try:
                result = self._obstore.put(
                    self._store, name, data, mode=mode, attributes=attributes, use_multipart=False
                )
            except lost as error:
                raise SwapLost(name) from error
            return str(result["e_tag"] or "")

    def upload(self, name: str, file: Path) -> None:
        with contextlib.suppress(FileNotFoundError):
            self.head(name)
            raise FileExistsError(name)
        with self._translated(name), self._unconditional(name):
            self._obstore.put(self._store, name, file, chunk_size=_CHUNK)

    def download(self, name: str, file: Path) -> None:
        beside = file.with_name(fresh_temporary(file.name))
        try:
            with self._translated(name), open(beside, "wb") as out:
                for chunk in self._obstore.get(self._store, name).stream(min_chunk_size=_CHUNK):
                    out.write(chunk)
            os.replace(beside, file)
        finally:
            beside.unlink(missing_ok=True)

    def list(self, prefix: str = "", *, after: str | None = None) -> Iterator[Named]:
        below = prefix.strip("/")
        with self._translated(below):
            pages = self._obstore.list(self._store, prefix=below or None, offset=after)
            found = [_named(entry) for page in pages for entry in page]
        yield from sorted(found, key=lambda one: one.name)

    def folders(self) -> tuple[str, ...]:
        """The names of what lies directly below the root and has something below itself."""
        with self._translated(""):
            found = self._obstore.list_with_delimiter(self._store)
            return tuple(sorted(str(one).rstrip("/").rsplit("/", 1)[-1] for one in found["common_prefixes"]))

    async def list_async(self, prefix: str = "") -> tuple[Named, ...]:
        below = prefix.strip("/")
        with self._translated(below):
            pages = self._obstore.list(self._store, prefix=below or None)
            found = [_named(entry) async for page in pages for entry in page]
        return tuple(sorted(found, key=lambda one: one.name))

    def delete(self, name: str) -> None:
        with contextlib.suppress(FileNotFoundError), self._translated(name):
            self._obstore.delete(self._store, name)

    def _check_size(self, name: str, meta: Mapping[str, Any], limit: int | None) -> None:
        if limit is not None and int(meta["size"]) > limit:
            raise TooLarge(
                f"{self.url}/{name} has {meta['size']} bytes, more than {limit}",
                hint="somebody else wrote it: look at the bucket",
            )

    @contextlib.contextmanager
    def _unconditional(self, name: str) -> Iterator[None]:
        """A store that is busy with the same name may answer 409 to a write that asked for no condition:
        that is no word on what lies there."""
        try:
            yield
        except self._obstore.exceptions.AlreadyExistsError:
            raise StorageError(f"{self.url}/{name}: the write was refused (409)", hint="run again") from None

    @contextlib.contextmanager
    def _translated(self, name: str) -> Iterator[None]:
        kinds = self._obstore.exceptions
        try:
            yield
        except kinds.AlreadyExistsError as error:
            raise FileExistsError(name) from error
        except kinds.NotFoundError as error:
            raise FileNotFoundError(name) from error
        # Not `from error`: a server's answer may repeat the key or token it was sent.
        except (kinds.PermissionDeniedError, kinds.UnauthenticatedError) as error:
            raise StorageError(
                f"{self.url}/{name}: access denied{_code(error)}",
                hint="check the credentials and the bucket's policy",
            ) from None
        except kinds.BaseError as error:
            raise StorageError(
                f"{self.url}/{name}: {type(error).__name__}{_code(error)}",
                hint="check the endpoint and the network, then run again",
            ) from None


def _connect(bucket: str, prefix: str, options: dict[str, str]) -> tuple[Any, Any]:
    try:
        import obstore
        from obstore.store import S3Store
    except ImportError as error:
        raise MissingExtra("s3:// needs obstore", hint="pip install 'lading[s3]'") from error
    unknown = sorted(set(options) - set(OPTIONS))
    if unknown:
        raise ConfigError(f"s3: unknown option {unknown[0]!r}", hint=f"one of: {', '.join(OPTIONS)}")
    allow_http = str(options.pop("allow_http", os.environ.get("AWS_ALLOW_HTTP", ""))).lower() == "true"
    try:
        store = S3Store(
            bucket,
            prefix=prefix or None,
            client_options={"allow_http": allow_http, "timeout": "60s"},
            retry_config=RETRY,  # type: ignore[arg-type]
            **_with_files(options),  # type: ignore[arg-type]
        )
    except obstore.exceptions.BaseError:
        raise ConfigError(
            f"s3://{bucket} can't be set up with what was given",
            hint="check endpoint and region; access_key_id and secret_access_key go together",
        ) from None
    return obstore, store


def _with_files(options: Mapping[str, str]) -> dict[str, str]:
    """`options`, completed from the AWS files; a key and its secret always come from one place."""
    found = from_files()
    if "access_key_id" in options:
        found = {name: text for name, text in found.items() if name == "region"}
    return {**found, **options}


def _code(error: BaseException) -> str:
    """What the server called its refusal, or that there was no answer; nothing else of its text."""
    text = str(error)
    found = re.search(r"<Code>(\w+)</Code>", text) or re.search(r"status (\d{3})\b", text)
    if found:
        return f" ({found[1]})"
    return " (no answer)" if "error sending request" in text or "HTTP error" in text else ""


def _named(entry: Mapping[str, Any]) -> Named:
    return Named(str(entry["path"]), int(entry["size"]), str(entry["e_tag"] or ""), entry["last_modified"])
