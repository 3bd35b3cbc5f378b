"""An object store through obstore: S3 and whatever speaks its protocol, Google Cloud Storage, Azure.

Conditional writes are the store's own (`If-None-Match`, `If-Match`, Google's generations), so many writers on
many machines need no lock. Credentials for S3 come from the options given, else from the environment and the
usual AWS chain; for the others from their environment. They are never part of a URL, an error or a log line.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from lading.config.stores import BUCKETS, ENVIRONMENT, S3_KEYS
from lading.errors import ConfigError, MissingExtra, StorageError
from lading.layout.beside import fresh_temporary
from lading.secrets import bare
from lading.storage.aws_files import from_files
from lading.storage.protocol import Named, Replaced, SwapLost, TooLarge, in_folders, utf8_name
from lading.storage.temporary import temporary_folder

_CHUNK = 8 << 20
_AT_ONCE = 16  # objects that are written at the same time
# A cut connection is tried again at once, a server that is gone is given up on after some seconds.
RETRY = {
    "max_retries": 5,
    "retry_timeout": timedelta(seconds=60),
    "backoff": {"init_backoff": timedelta(milliseconds=100), "max_backoff": timedelta(seconds=5), "base": 2},
}
# What a swap goes by, where it isn't the etag: Google's conditions are on generations.
_VERSIONED = {"gs": "version"}


class ObjectStorage:
    """A bucket and a prefix in it."""

    def __init__(self, url: str, options: Mapping[str, str] | None = None) -> None:
        parts = urlsplit(url)
        if parts.scheme not in BUCKETS or not parts.netloc or parts.username or parts.query:
            raise ConfigError(
                f"{bare(url)!r} is not a bucket URL",
                hint="write it as s3://bucket/prefix, gs://… or az://…",
            )
        self._scheme, prefix = parts.scheme, parts.path.strip("/")
        self.url = f"{parts.scheme}://{parts.netloc}/{prefix}".rstrip("/")
        self._obstore, self._store = _connect(parts.scheme, parts.netloc, prefix, dict(options or {}))

    @property
    def folder(self) -> None:
        return None

    @property
    def prefix(self) -> str:
        return f"{self.url}/"

    def get(self, name: str, *, limit: int | None = None) -> bytes:
        return self.get_with_etag(name, limit=limit)[0]

    def get_with_etag(self, name: str, *, limit: int | None = None) -> tuple[bytes, str]:
        with self._translated(name):
            result = self._obstore.get(self._store, name)
            self._check_size(name, result.meta, limit)
            return bytes(result.bytes()), self._swap_tag(result.meta)

    async def get_async(self, name: str, *, limit: int | None = None) -> bytes:
        with self._translated(name):
            result = await self._obstore.get_async(self._store, name)
            self._check_size(name, result.meta, limit)
            return bytes(await result.bytes_async())

    def get_range(self, name: str, start: int, length: int, *, etag: str | None = None) -> bytes:
        with self._translated(name):
            if etag is None:
                return bytes(self._obstore.get_range(self._store, name, start=start, length=length))
            options: Any = {"range": (start, start + length)}
            try:
                result = self._obstore.get(self._store, name, options=options)
                found, data = result.meta["e_tag"], bytes(result.bytes())
            except self._obstore.exceptions.BaseError:
                # A range behind the end of an object: which may be a shorter one by now.
                found, data = self._obstore.head(self._store, name)["e_tag"], None
                if _bare_tag(found) == _bare_tag(etag):
                    raise
            if data is not None and _bare_tag(found) == _bare_tag(etag):
                return data
        raise Replaced(
            f"{self.url}/{name} was replaced while it was being read",
            hint="someone else wrote it: check the bucket",
        )

    def head(self, name: str) -> Named:
        with self._translated(name):
            return _named(self._obstore.head(self._store, name))

    def has(self, name: str) -> bool:
        try:
            self.head(name)
        except FileNotFoundError:
            return False
        return True

    def sha256(self, name: str) -> tuple[int, str]:
        found = self.head(name)
        digest = hashlib.sha256()
        for start in range(0, found.size, _CHUNK):
            length = min(_CHUNK, found.size - start)
            digest.update(self.get_range(name, start, length, etag=found.etag))
        return found.size, digest.hexdigest()

    def put_new(self, name: str, data: bytes, *, content_type: str | None = None) -> None:
        attributes = {"Content-Type": content_type} if content_type else None
        with self._translated(name):
            self._obstore.put(
                self._store, name, data, mode="create", attributes=attributes, use_multipart=False
            )

    def put(
        self, name: str, data: bytes, *, content_type: str | None = None, beside: str | None = None
    ) -> None:
        attributes = {"Content-Type": content_type} if content_type else None
        with self._translated(name), self._unconditional(name):
            self._obstore.put(self._store, name, data, attributes=attributes, use_multipart=False)

    def put_same(self, objects: Mapping[str, bytes]) -> None:
        """Whether it was there or not: an object that is put again is as new as any."""
        if len(objects) < 2:
            for name, data in objects.items():
                self.put(name, data)
            return
        with ThreadPoolExecutor(min(_AT_ONCE, len(objects))) as pool:
            list(pool.map(self.put, objects.keys(), objects.values()))

    def sync(self, name: str) -> None:
        """An object that can be seen is durable."""

    def touch(self, names: Iterable[str]) -> None:
        """Nothing but writing an object anew would do it."""

    def swap(self, name: str, data: bytes, etag: str | None, *, content_type: str | None = None) -> str:
        mode: Any = "create" if etag is None else {_VERSIONED.get(self._scheme, "e_tag"): etag}
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
            return self._swap_tag(result)

    def lock(self, name: str) -> contextlib.AbstractContextManager[bool]:
        return contextlib.nullcontext(False)

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

    def draft(self, name: str) -> Path:
        handle, file = tempfile.mkstemp(
            prefix="lading-", suffix=f"-{name.rpartition('/')[2]}", dir=temporary_folder()
        )
        os.close(handle)
        return Path(file)

    def keep(self, draft: Path, name: str, *, durable: bool = True) -> None:
        self.upload(name, draft)
        draft.unlink()

    def list(
        self,
        prefix: str = "",
        *,
        after: str | None = None,
        wanted: Callable[[str], bool] | None = None,
        links: bool = False,
    ) -> Iterator[Named]:
        below = prefix.strip("/")
        with self._translated(below):
            pages = self._obstore.list(self._store, prefix=below or None, offset=after)
            found = [_named(entry) for page in pages for entry in page]
        for one in sorted(found, key=lambda one: one.name):
            if wanted is None or wanted(one.name):
                yield one

    def folders(self, prefix: str = "") -> tuple[str, ...]:
        with self._translated(prefix):
            found = self._obstore.list_with_delimiter(self._store, prefix=prefix or None)
            return tuple(sorted(str(one).rstrip("/").rsplit("/", 1)[-1] for one in found["common_prefixes"]))

    def newest(self, prefix: str, leaf: str, *, after: str = "") -> Iterator[str]:
        listed = self.list(prefix, after=f"{prefix}/{after}" if after else None)
        yield from (name for name in reversed(in_folders(listed, prefix, leaf)) if name > after)

    async def list_async(self, prefix: str = "") -> tuple[Named, ...]:
        below = prefix.strip("/")
        with self._translated(below):
            pages = self._obstore.list(self._store, prefix=below or None)
            found = [_named(entry) async for page in pages for entry in page]
        return tuple(sorted(found, key=lambda one: one.name))

    def delete(self, name: str) -> None:
        with contextlib.suppress(FileNotFoundError), self._translated(name):
            self._obstore.delete(self._store, name)

    def rename(self, name: str, to: str) -> None:
        with contextlib.suppress(FileExistsError):  # moved before, and the deletion failed
            self.put_new(to, self.get(name))
        self.delete(name)

    def delete_found(self, found: Named) -> bool:
        try:
            now = self.head(found.name)
        except FileNotFoundError:
            return False
        # Azure quotes an etag in a header and not in a listing.
        if (now.etag.strip('"'), now.size) != (found.etag.strip('"'), found.size):
            return False
        if now.modified - found.modified >= timedelta(seconds=1):  # a header has whole seconds
            return False  # put again, with the same content
        self.delete(found.name)
        return True

    def drop_empty(self, name: str) -> bool:
        return False  # a bucket has no folders

    def recorded(self, file: str | os.PathLike[str]) -> str:
        name = os.fspath(file)
        scheme, found, rest = name.partition("://")
        if found and (scheme != self._scheme or "/" not in rest):
            raise ConfigError(
                f"{name} is not {self._scheme}://bucket/name", hint="name an object of a bucket"
            )
        path = name.removeprefix(self.prefix) if found else name.removeprefix("./")
        steps = path.partition("://")[2].split("/") if "://" in path else path.split("/")
        if any(step in ("", ".", "..") for step in steps) or os.path.isabs(name):
            raise ConfigError(
                f"{name} is not a file in {self.url}",
                hint="give its path there, or its URL; upload files from this disk first",
            )
        return utf8_name(path)

    def ways_to(self, file: str) -> tuple[str, ...]:
        return file, self.recorded(file)

    def _swap_tag(self, meta: Any) -> str:
        return str(meta[_VERSIONED.get(self._scheme, "e_tag")] or "")

    def _check_size(self, name: str, meta: Mapping[str, Any], limit: int | None) -> None:
        if limit is not None and int(meta["size"]) > limit:
            error = TooLarge(
                f"{self.url}/{name} has {meta['size']} bytes, more than {limit}",
                hint="someone else wrote it: check the bucket",
            )
            error.etag = self._swap_tag(meta)
            raise error

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


def _connect(scheme: str, bucket: str, prefix: str, options: dict[str, str]) -> tuple[Any, Any]:
    try:
        import obstore
        from obstore.store import AzureStore, GCSStore, S3Store
    except ImportError as error:
        raise MissingExtra(f"{scheme}:// needs obstore", hint="pip install 'lading[s3]'") from error
    if scheme != "s3":
        opened = {"gs": GCSStore, "az": AzureStore}[scheme]
        try:
            store = opened(
                bucket,
                prefix=prefix or None,
                client_options={"timeout": "60s"},
                retry_config=RETRY,  # type: ignore[arg-type]
            )
        except obstore.exceptions.BaseError:
            raise ConfigError(f"{scheme}://{bucket} can't be set up", hint=ENVIRONMENT[scheme]) from None
        return obstore, store
    unknown = sorted(set(options) - set(S3_KEYS))
    if unknown:
        raise ConfigError(f"s3: unknown option {unknown[0]!r}", hint=f"one of: {', '.join(S3_KEYS)}")
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
            f"s3://{bucket} can't be set up with these options",
            hint="check endpoint and region; access_key_id and secret_access_key go together",
        ) from None
    return obstore, store


def _with_files(options: Mapping[str, str]) -> dict[str, str]:
    """`options`, completed from the AWS files; a key and its secret always come from one place."""
    found = from_files()
    if "access_key_id" in options:
        found = {name: text for name, text in found.items() if name == "region"}
    return {**found, **options}


def _bare_tag(etag: str | None) -> str:
    """In a header it is quoted, in a listing not always."""
    return (etag or "").strip('"')


def _code(error: BaseException) -> str:
    """What the server called its refusal, or that there was no answer; nothing else of its text."""
    text = str(error)
    found = re.search(r"<Code>(\w+)</Code>", text) or re.search(r"status (\d{3})\b", text)
    if found:
        return f" ({found[1]})"
    return " (no answer)" if "error sending request" in text or "HTTP error" in text else ""


def _named(entry: Mapping[str, Any]) -> Named:
    return Named(str(entry["path"]), int(entry["size"]), str(entry["e_tag"] or ""), entry["last_modified"])
