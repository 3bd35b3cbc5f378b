"""An object store through obstore: S3 and whatever speaks its protocol.

Conditional writes are the store's own (`If-None-Match`, `If-Match`), so many writers on many machines
need no lock. Credentials come from the options given, else from the environment and the usual AWS
chain; they are never part of a URL, an error or a log line.
"""

from __future__ import annotations

import contextlib
import os
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from lading.errors import ConfigError, MissingExtra, StorageError
from lading.storage.named import Named, SwapLost

_CHUNK = 8 << 20
OPTIONS = ("endpoint", "region", "access_key_id", "secret_access_key", "session_token", "allow_http")


class ObjectStorage:
    """A bucket and a prefix in it."""

    def __init__(self, url: str, options: Mapping[str, str] | None = None) -> None:
        parts = urlsplit(url)
        if parts.scheme != "s3" or not parts.netloc or parts.username or parts.query:
            raise ConfigError(
                f"{_shown(url)!r} is not an s3://bucket/prefix", hint="write it as s3://bucket/prefix"
            )
        self._prefix = parts.path.strip("/")
        self.url = f"s3://{parts.netloc}/{self._prefix}".rstrip("/")
        self._obstore, self._store = _connect(parts.netloc, self._prefix, dict(options or {}))

    def get(self, name: str) -> bytes:
        return self.get_with_etag(name)[0]

    def get_with_etag(self, name: str) -> tuple[bytes, str]:
        with self._translated(name):
            result = self._obstore.get(self._store, name)
            return bytes(result.bytes()), str(result.meta["e_tag"] or "")

    def get_range(self, name: str, start: int, length: int) -> bytes:
        with self._translated(name):
            return bytes(self._obstore.get_range(self._store, name, start=start, length=length))

    def head(self, name: str) -> Named:
        with self._translated(name):
            return _named(self._obstore.head(self._store, name))

    def put_new(self, name: str, data: bytes, *, content_type: str | None = None) -> None:
        attributes = {"Content-Type": content_type} if content_type else None
        with self._translated(name):
            self._obstore.put(
                self._store, name, data, mode="create", attributes=attributes, use_multipart=False
            )

    def swap(self, name: str, data: bytes, etag: str | None) -> str:
        mode: Any = "create" if etag is None else {"e_tag": etag}
        kinds = self._obstore.exceptions
        lost = (kinds.AlreadyExistsError, kinds.PreconditionError, kinds.NotFoundError)
        with self._translated(name):
            try:
                result = self._obstore.put(self._store, name, data, mode=mode, use_multipart=False)
            except lost as error:
                raise SwapLost(name) from error
            return str(result["e_tag"] or "")

    def upload(self, name: str, file: Path) -> None:
        with contextlib.suppress(FileNotFoundError):
            self.head(name)
            raise FileExistsError(name)
        with self._translated(name):
            self._obstore.put(self._store, name, file, chunk_size=_CHUNK)

    def download(self, name: str, file: Path) -> None:
        beside = file.with_name(f".{file.name}.{uuid.uuid4().hex}.tmp")
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

    def delete(self, name: str) -> None:
        with contextlib.suppress(FileNotFoundError), self._translated(name):
            self._obstore.delete(self._store, name)

    @contextlib.contextmanager
    def _translated(self, name: str) -> Iterator[None]:
        kinds = self._obstore.exceptions
        try:
            yield
        except kinds.AlreadyExistsError as error:
            raise FileExistsError(name) from error
        except kinds.NotFoundError as error:
            raise FileNotFoundError(name) from error
        except (kinds.PermissionDeniedError, kinds.UnauthenticatedError) as error:
            raise StorageError(
                f"{self.url}/{name}: access denied", hint="check the credentials and the bucket's policy"
            ) from error
        except kinds.BaseError as error:
            raise StorageError(
                f"{self.url}/{name}: {type(error).__name__}",
                hint="check the endpoint and the network, then run again",
            ) from error


def _connect(bucket: str, prefix: str, options: dict[str, str]) -> tuple[Any, Any]:
    try:
        import obstore
        from obstore.store import S3Store
    except ImportError as error:
        raise MissingExtra("s3:// needs obstore", hint="pip install 'lading[s3]'") from error
    unknown = sorted(set(options) - set(OPTIONS))
    if unknown:
        raise ConfigError(f"s3: unknown option {unknown[0]!r}", hint=f"one of: {', '.join(OPTIONS)}")
    allow_http = str(options.pop("allow_http", "false")).lower() == "true"
    store = S3Store(
        bucket,
        prefix=prefix or None,
        client_options={"allow_http": allow_http, "timeout": "60s"},
        **options,  # type: ignore[arg-type]
    )
    return obstore, store


def _named(entry: Mapping[str, Any]) -> Named:
    return Named(str(entry["path"]), int(entry["size"]), str(entry["e_tag"] or ""), entry["last_modified"])


def _shown(url: str) -> str:
    """Without what could be a secret."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.hostname or ''}{parts.path}"
