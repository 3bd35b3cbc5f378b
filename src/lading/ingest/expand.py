"""From the files that discovery found to the files that are read: archives and scripts in between.

Only a run extracts archives and runs scripts. A plan opens none of them: one whose extraction isn't
current is a single line of the plan, and what the table holds of it is left out of the question.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

from lading.config.archives import UNZIP
from lading.errors import SourceError
from lading.ingest.apart import in_spark, is_apart, look_at, unless_error
from lading.ingest.compare import KnownByKey, Walk
from lading.ingest.table_run import TableRun
from lading.ingest.unpack import Expanded, Unpacker, is_on_cluster, relative, waits
from lading.model import FoundFile
from lading.sources.archives.extractions import is_archive
from lading.sources.archives.index import found_in
from lading.sources.archives.input import Input, all_files, one_file
from lading.sources.archives.scratch import Apart
from lading.sources.found import Picked, keys_of
from lading.sources.preprocess import Made, Preprocessed, Script, load_script, run_script
from lading.storage.folder import locked


def expand(run: TableRun, found: Sequence[FoundFile], section: Mapping[str, Any]) -> Expanded:
    """`section` is `preprocessing` as manifest/<table>.json has it."""
    spec = run.cfg.preprocess
    if spec is not None and spec.action != UNZIP:
        return _scripted(run, found, section, load_script(run.config.project, spec))
    gz = run.cfg.inside is not None or spec is not None
    places = [at for at, key in enumerate(keys_of(found)) if is_archive(key, gz=gz)]
    if gz and len(places) < len(found):
        plain = next(file for file in found if not is_archive(file.key, gz=gz))
        raise SourceError(
            f"{plain.key} is not an archive (zip, tar, tar.gz, tgz, gz)",
            hint="narrow `path` to the archives, or take out `inside` and `preprocess`",
            file=plain.key,
        )
    if not places and not section:
        return Expanded(found)
    packed = list(Picked(found, places))
    plain_files = [file for file in found if not is_archive(file.key, gz=gz)]
    return Unpacker(run).expand(plain_files, packed, section)


def without_hidden(known: KnownByKey, hidden: tuple[str, ...]) -> KnownByKey:
    """What is known, less what waiting archives decide on."""
    return Walk(lambda: (pair for pair in known if not pair[0].startswith(hidden))) if hidden else known


def _scripted(
    run: TableRun, found: Sequence[FoundFile], section: Mapping[str, Any], script: Script
) -> Expanded:
    config, act = run.config, run.start_spark is not None
    apart = is_on_cluster(run) and is_apart(run)
    outputs = Preprocessed(config.project, config.cache, run.cfg.name, script, apart=apart)
    inputs = _inputs(run, found, script)
    ready = [outputs.current(one, relative(run, one), section, full=run.full) for one in inputs]
    if not act and run.objects is not None:  # to look, it doesn't matter where the last run had its tasks
        other = Preprocessed(config.project, config.cache, run.cfg.name, script, apart=not apart)
        ready = [
            made or other.current(one, relative(run, one), section, full=run.full)
            for one, made in zip(inputs, ready, strict=True)
        ]
    stale = [one for one, made in zip(inputs, ready, strict=True) if made is None]
    made = [one for one in ready if one is not None]
    if stale and act:
        run.watch.phase(run.cfg.name, "preprocess")
        made += _look_at(run, outputs, stale) if apart else _run_script(run, outputs, stale)
    names = [outputs.folder_of(one, relative(run, one)).name for one in stale]
    inside = run.cfg.inside
    files = [
        file
        for one in made
        for file in found_in(
            one.folder,
            one.index,
            one.input.key,
            inside,
            f"{run.cfg.url}/{one.input.key}" if one.apart else None,
        )
    ]
    return Expanded(
        sorted(files, key=lambda file: file.key),
        waiting=() if act else tuple(waits(run, one, section) for one in stale),
        hidden=() if act else tuple(f"{name}/" for name in names),
        preprocessing={one.input.key: outputs.entry(one) for one in made},
        made=bool(stale) and act,
        apart={one.input.key: _apart(run, outputs, one.input) for one in made if one.apart},
    )


def _inputs(run: TableRun, found: Sequence[FoundFile], script: Script) -> list[Input]:
    if not script.together:
        return [one_file(file) for file in found]
    return [all_files(run.cfg.path, found)] if found else []


@contextmanager
def _all_locked(run: TableRun, outputs: Preprocessed, stale: Sequence[Input]) -> Iterator[None]:
    with ExitStack() as locks:
        folders = sorted(outputs.folder_of(one, relative(run, one)) for one in stale)
        for folder in folders:  # in one order: no deadlock
            locks.enter_context(locked(outputs.lock_of(folder)))
        yield


def _look_at(run: TableRun, outputs: Preprocessed, stale: Sequence[Input]) -> list[Made]:
    """Tasks run the script; only what it wrote and how that hashes comes back."""
    made = []
    with _all_locked(run, outputs, stale):
        answers = look_at(run, [_apart(run, outputs, one) for one in stale])
        for one, looked in zip(stale, answers, strict=True):
            assert looked.index is not None, "a script is never refused"
            made.append(outputs.finish_apart(one, relative(run, one), looked.index, full=run.full))
    return made


def _apart(run: TableRun, outputs: Preprocessed, one: Input) -> Apart:
    assert run.objects is not None
    limits = run.config.archives
    files = [run.objects.source_file(file, limits) for file in one.files]
    return outputs.apart(one, relative(run, one), files)


def _run_script(run: TableRun, outputs: Preprocessed, stale: Sequence[Input]) -> list[Made]:
    made = []
    with _all_locked(run, outputs, stale):
        for one in stale:
            run.fetch(one.files)
        tasks = [outputs.task(one, relative(run, one)) for one in stale]
        paths = in_spark(run, run_script, tasks) if is_on_cluster(run) else None
        for number, one in enumerate(stale):
            if paths is None:
                run.watch.progress(run.cfg.name, f"preprocessing {one.key}", number, len(stale))
            path = unless_error(paths[number]) if paths is not None else run_script(tasks[number])
            made.append(outputs.finish(one, relative(run, one), path, full=run.full))
    return made
