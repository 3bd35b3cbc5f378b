"""One file's verdict, from what was found of it and what is known of it: pure."""

from __future__ import annotations

import msgspec

from lading.model import Digest, FoundFile, Source, Verdict
from lading.sources.fingerprint import is_elsewhere

VERDICTS: tuple[Verdict, ...] = (
    "new",
    "changed",
    "reread",
    "touched",
    "unchanged",
    "vanished",
    "failed",
    "quarantined",
)

READ_VERDICTS = frozenset({"new", "changed", "reread", "failed"})  # of files that a run reads

NOT_BEFORE = "not read before"
SAME = "same size and modification time"
SAME_CONTENT = "same content"


class Known(msgspec.Struct, frozen=True, gc=False):
    """What is known of one source key before the run."""

    source: Source | None  # as the log has it; None when its rows were never committed
    again: str | None = None  # why it is read again although the log has it
    failed: bool = False
    spot: int = 0  # where it lay when it was read; 0: not known


class FileVerdict(msgspec.Struct, frozen=True, gc=False):
    key: str
    verdict: Verdict
    reason: str


def verdict_on(file: FoundFile, known: Known | None, digest: Digest | None, *, full: bool) -> FileVerdict:
    """The verdict on one file that was found."""
    if known is None:
        return FileVerdict(file.key, "new", NOT_BEFORE)
    if known.failed:
        return FileVerdict(file.key, "failed", known.again or "the last attempt failed")
    source = known.source
    if source is None:
        return FileVerdict(file.key, "new", known.again or NOT_BEFORE)
    if known.again is not None:
        return FileVerdict(file.key, "reread", known.again)
    if file.fingerprint is not None:
        return _verdict_by_fingerprint(file, known, source)
    elsewhere = is_elsewhere(file.spot, known.spot)
    if is_same(file, source) and not source.racy and not full and not elsewhere:
        return _as_before(source, SAME)
    if digest is None or digest.sha256 != source.sha256:
        return FileVerdict(file.key, "changed", _what_changed(file, source))
    if full or (is_same(file, source) and not elsewhere):
        return _as_before(source, SAME_CONTENT)
    if not is_same(file, source):
        return FileVerdict(file.key, "touched", "new modification time, same content")
    return FileVerdict(file.key, "touched", "another file in its place, same content")


def _verdict_by_fingerprint(file: FoundFile, known: Known, source: Source) -> FileVerdict:
    """A member or an object: its fingerprint is of its content, there is no time to be touched. An ETag
    is the bucket's own word, and says nothing in another."""
    if is_elsewhere(file.spot, known.spot):
        return FileVerdict(file.key, "changed", "it comes from a different bucket or prefix than before")
    if file.fingerprint == source.hash:
        return _as_before(source, SAME_CONTENT)
    return FileVerdict(file.key, "changed", _what_changed(file, source))


def _as_before(source: Source, why: str) -> FileVerdict:
    """A file that was set aside whole stays there until it changes, or is replayed."""
    if source.aside is None:
        return FileVerdict(source.key, "unchanged", why)
    return FileVerdict(source.key, "quarantined", source.aside)


def depends_on_content(file: FoundFile, known: Known | None, *, full: bool) -> bool:
    """Whether the verdict does. Of a file that nobody knows it never does."""
    if file.fingerprint is not None or known is None or known.source is None:
        return False
    if known.again is not None or known.failed:
        return False
    moved = is_elsewhere(file.spot, known.spot)
    return full or known.source.racy or moved or not is_same(file, known.source)


def is_same(file: FoundFile, source: Source) -> bool:
    """By size and time, which is what the fast fingerprint says."""
    return file.mtime_ns == source.mtime_ns and file.size == source.size


def recorded_hash(file: FoundFile, digest: Digest | None, *, full: bool) -> str:
    """The fingerprint as manifest/<table>.json shows it."""
    return digest.sha256 if full and digest is not None and file.fingerprint is None else file.hash


def settles(file: FoundFile, known: Known | None, digest: Digest | None, *, full: bool) -> bool:
    """A racy file whose content was compared and whose mtime has aged needs no comparison any more; a
    fingerprint of the other kind is written anew."""
    if known is None or known.source is None:
        return False
    cleared = known.source.racy and not file.racy
    return cleared or known.source.hash != recorded_hash(file, digest, full=full)


def _what_changed(file: FoundFile, source: Source) -> str:
    if file.size != source.size:
        return f"size was {source.size}, is {file.size}"
    return "content differs"


def reread(verdict: FileVerdict, reason: str) -> FileVerdict:
    if verdict.verdict in ("unchanged", "touched", "quarantined"):
        return FileVerdict(verdict.key, "reread", reason)
    return verdict


def vanished(source: Source) -> FileVerdict:
    return FileVerdict(source.key, "vanished", "in the table, no longer in the folder")
