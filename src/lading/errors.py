"""Every error lading raises on purpose: one root, one class a remedy, each with a hint.

`kind` is what `--json` prints; it is the class name, so scripts can rely on it.
Exit codes: 1 for work that failed, 3 for a config or usage error.
"""

from __future__ import annotations

from typing import Any

from lading.secrets import hide


class LadingError(Exception):
    """The root. `message` says what happened and to what, `hint` what to do next; neither repeats a secret
    that the text they are made of may hold."""

    exit_code = 1

    def __init__(
        self,
        message: str,
        *,
        hint: str = "",
        table: str | None = None,
        file: str | None = None,
    ) -> None:
        self.message = hide(message)
        self.hint = hide(hint)
        self.table = hide(table) if table is not None else None
        self.file = hide(file) if file is not None else None
        super().__init__(self.message)

    @property
    def kind(self) -> str:
        return type(self).__name__

    def as_json(self) -> dict[str, Any]:
        """Plain values, for `--json`."""
        told = {"message": self.message, "hint": self.hint, "table": self.table, "file": self.file}
        return {"kind": self.kind, **told}

    def __str__(self) -> str:
        return f"{self.message}\n  hint: {self.hint}" if self.hint else self.message


class Unexpected(LadingError):
    """What lading doesn't expect to happen, so a bug: report it, with the traceback."""

    @classmethod
    def of(cls, error: Exception) -> Unexpected:
        told = cls(
            f"unexpected {type(error).__name__}: {error}",
            hint="please report it with the traceback. Nothing is lost, and you can run the command again",
        )
        told.__cause__ = error
        return told


class ConfigError(LadingError):
    """lading.yaml, a schema file or a command line says something impossible: fix it, run again."""

    exit_code = 3


class MissingExtra(LadingError):
    """An optional part is needed and not installed: install the extra that the hint names."""

    exit_code = 3


class NotFound(LadingError):
    """A table, snapshot, member or column that was asked for isn't there: look at the names listed."""


class SourceError(LadingError):
    """A root that can't be listed, two files with one key, a file that can't be read: fix the files."""


class ArchiveRefused(SourceError):
    """An archive that is damaged or could do harm: ask for a good one, or raise the limit that it names."""


class PreprocessError(SourceError):
    """A preprocess script that can't be loaded, raised, or wrote what can't be read: fix the script."""


class SchemaDrift(SourceError):
    """A file's columns differ from the pinned schema: fix the file or the schema."""


class BadRows(SourceError):
    """Rows that do not fit the schema, or fail a check: fix them, or set `on_bad`."""

    checks: tuple[Any, ...] = ()  # how the checks on rows went, if that is what failed


class VanishGuard(SourceError):
    """More than half of a table's sources are gone: check the root, or pass --allow-vanish."""


class NotReady(LadingError):
    """A table that this one is made of failed, was refused by its gate, or was never published: mend it, then
    run again."""


class TransformError(LadingError):
    """A transform that can't be loaded, isn't deterministic, drops `_source`, or raised."""


class PipelineError(LadingError):
    """Spark could not start or a job failed: the hint says where to look."""


class LogCorrupt(LadingError):
    """The log or a checkpoint fails its checksums: restore it or rebuild."""


class PartError(LadingError):
    """A data file that the table lists is missing or can't be read: restore it or build the table again."""


class Conflict(LadingError):
    """Somebody else committed or published in between: run again."""


class GivenUp(Conflict):
    """Cleaning took this run for dead, because its lease had lapsed: run again."""


class PredicateError(LadingError):
    """A `--where` that can't be parsed or compared: fix the expression."""

    exit_code = 3


class ManifestStoreError(LadingError):
    """A snapshot manifest or the pointer could not be read: check the store."""


class StoreUnreachable(ManifestStoreError):
    """No answer came from the store. Nothing is known of what it holds: it is not damaged for that."""


class ManifestGone(ManifestStoreError, NotFound):
    """A snapshot's manifest isn't there, or no longer: it was cleaned away. Pick one that is listed now."""


class ManifestParseError(LadingError):
    """A manifest or pointer was read but is malformed: roll back or publish again."""


class PublishManifestError(LadingError):
    """The snapshot manifest could not be written: nothing is visible, run again."""


class PublishCurrentError(LadingError):
    """The pointer could not be moved: the snapshot is durable but invisible, run again."""


class StorageError(LadingError):
    """A disk or an object store did not do as asked: check room, access and network, run again."""


class CommitUnknown(StorageError):
    """It can't be told whether a commit was made. What it refers to must stay: run again."""


class RoutingError(LadingError):
    """A key, or what is known beside it, that leads to no shard: correct the key or the expression."""

    exit_code = 3


class UnknownRoutingTokenError(RoutingError):
    """A routing expression gave a token that routing_values does not list: add it, or correct the row."""


class ShardCoverageError(LadingError):
    """A shard that has no winner, or one that nobody asked for: run again; nothing was published."""


class GateFailed(LadingError):
    """A check on the whole table failed, so readers keep the snapshot they have: fix the rows, run again."""


class NotShown(LadingError):
    """A snapshot has something that Iceberg's metadata can't say: its readers don't see it."""


class ShardError(LadingError):
    """A shard file that is missing, damaged or not the one that was published: restore it or build again."""


class TooManyFiles(ShardError):
    """The process has as many files open as it may: allow it more, or read with fewer threads."""
