"""What each file says of its columns: looked at once, by tasks where it is much, and kept in the log.

A look is a pass of its own over files that are new, so that the schema is known before a row is read by it.
Evidence counts for the very bytes that were looked at, and for the way they were looked at: it has a mark.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import msgspec
import xxhash

from lading.errors import LadingError, SourceError
from lading.formats.evidence import FileEvidence, decoded, encoded
from lading.formats.infer.look import LookSpec, look
from lading.formats.source_file import SourceFile
from lading.ingest.table_run import TableRun
from lading.ingest.tasks.task import Refusal
from lading.model import FoundFile, Looked
from lading.sources.archives.scratch import scratch
from lading.sources.fingerprint import source_id

_HERE = 32 << 20  # bytes that this process looks at sooner than Spark is started for them
_TASK = 64 << 20  # bytes that a task looks at
_FEW = 1 << 20  # bytes that a thread looks at
_THREADS = 4

NOTHING = FileEvidence(0, ())  # of a file without a record, or one that can't be read

Found = dict[str, FileEvidence | SourceError]  # by key


class _Answer(msgspec.Struct):
    key: str
    evidence: bytes = b""
    refused: Refusal | None = None


def look_at(run: TableRun, files: Sequence[FoundFile], spec: LookSpec) -> Found:
    """The evidence of each file, or why there is none."""
    if not files:
        return {}
    amount = sum(file.size for file in files)
    here = run.start_spark is None or amount < max(_HERE, run.config.spark.in_process_below)
    run.watch.progress(run.name, "files looked at", 0, len(files))
    tasks = _tasks(run, files, _FEW if here else _TASK)
    if here:
        with ThreadPoolExecutor(_THREADS) as pool:
            answers = [answer for some in pool.map(partial(_looked, spec), tasks) for answer in some]
    else:
        from lading.spark.tasks import spread

        told = spread(
            run.spark(), partial(_told, spec, tasks), len(tasks), f"look at the files of {run.name}",
            table=run.name,
        )  # fmt: skip
        answers = [answer for one in told for answer in msgspec.msgpack.decode(one, type=list[_Answer])]
    return {answer.key: _taken(answer) for answer in answers}


def mark_of(sha256: str, spec: LookSpec) -> int:
    """Of bytes, and how they are looked at."""
    rules = [(one.name, one.dates, one.timestamps, one.nulls, one.decimal) for one in spec.rules]
    said = (spec.format, dict(spec.options), spec.names, spec.naming.how, spec.naming.columns, rules)
    how = msgspec.json.encode(said, order="sorted")
    value: int = xxhash.xxh3_64_intdigest(sha256.encode() + b"\0" + how)
    return value - (value >> 63 << 64)


def kept_evidence(
    looked: Mapping[int, Looked], files: Iterable[tuple[str, str]], spec: LookSpec
) -> dict[str, FileEvidence]:
    """Of `files`, by key and SHA-256, those that the log has evidence of."""
    found = {}
    for key, sha256 in files:
        one = looked.get(source_id(key))
        if one is not None and sha256 and one.mark == mark_of(sha256, spec):
            found[key] = decoded(one.evidence)
    return found


def to_keep(
    found: Mapping[str, FileEvidence], sha256: Mapping[str, str], spec: LookSpec
) -> tuple[Looked, ...]:
    """For the log: the evidence of files whose content is known."""
    return tuple(
        Looked(source_id(key), mark_of(sha256[key], spec), encoded(one))
        for key, one in found.items()
        if sha256.get(key)
    )


def _tasks(run: TableRun, files: Sequence[FoundFile], most: int) -> list[list[SourceFile]]:
    """Files that are made together stay together."""
    tasks: list[list[SourceFile]] = []
    held, last = 0, None
    for file in files:
        together = run.together(file)
        alone = together is None or together != last
        if not tasks or (held + file.size > most and alone):
            tasks.append([])
            held = 0
        tasks[-1].append(run.source_file(file))
        held, last = held + file.size, together
    return tasks


def _told(spec: LookSpec, tasks: Sequence[Sequence[SourceFile]], number: int) -> bytes:
    return msgspec.msgpack.encode(_looked(spec, tasks[number]))


def _looked(spec: LookSpec, files: Sequence[SourceFile]) -> list[_Answer]:
    answers = []
    with scratch():
        for file in files:
            try:
                answers.append(_Answer(file.key, encoded(look(file, spec))))
            except SourceError as error:
                answers.append(_Answer(file.key, refused=Refusal.because(error)))
    return answers


def _taken(answer: _Answer) -> FileEvidence | SourceError:
    if answer.refused is None:
        return decoded(answer.evidence)
    import lading.errors as errors

    kind: Any = getattr(errors, answer.refused.kind, SourceError)
    error: LadingError = kind(answer.refused.message, hint=answer.refused.hint or "", file=answer.key)
    return error if isinstance(error, SourceError) else SourceError(error.message, hint=error.hint)
