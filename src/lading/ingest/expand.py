"""From the files that discovery found to the files that are read: archives and scripts in between.

Only a run extracts archives and runs scripts. A plan opens none of them: one whose extraction isn't
current is a single line of the plan, and what the table holds of it is left out of the question.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import Any

from lading.config.archives import UNZIP
from lading.errors import SourceError
from lading.ingest.plan import Known
from lading.ingest.setting import Expanded, Setting, unless_error
from lading.ingest.unpack import Unpacker
from lading.model import FoundFile
from lading.sources.archives.extractions import is_archive
from lading.sources.archives.index import found_in
from lading.sources.archives.input import Input, all_files, one_file
from lading.sources.preprocess import Made, Preprocessed, Script, load_script, run_script
from lading.storage.folder import locked


def expand(setting: Setting, found: list[FoundFile], section: Mapping[str, Any]) -> Expanded:
    """`section` is `preprocessing` as manifest/<table>.json has it."""
    spec = setting.table.preprocess
    if spec is not None and spec.action != UNZIP:
        return _scripted(setting, found, section, load_script(setting.config.project, spec))
    gz = setting.table.inside is not None or spec is not None
    packed = [file for file in found if is_archive(file.key, gz=gz)]
    if gz and len(packed) < len(found):
        plain = next(file for file in found if not is_archive(file.key, gz=gz))
        raise SourceError(
            f"{plain.key} is not an archive (zip, tar, tar.gz, tgz, gz)",
            hint="narrow `path` to the archives, or take out `inside` and `preprocess`",
            file=plain.key,
        )
    if not packed and not section:
        return Expanded(found)
    plain_files = [file for file in found if not is_archive(file.key, gz=gz)]
    return Unpacker(setting).expand(plain_files, packed, section)


def without_hidden(known: Mapping[str, Known], hidden: tuple[str, ...]) -> dict[str, Known]:
    """What is known, less what waiting archives decide on."""
    return {key: one for key, one in known.items() if not key.startswith(hidden)} if hidden else dict(known)


def _scripted(
    setting: Setting, found: list[FoundFile], section: Mapping[str, Any], script: Script
) -> Expanded:
    config, act = setting.config, setting.act is not None
    outputs = Preprocessed(config.project, config.cache, setting.table.name, script)
    inputs = _inputs(setting, found, script)
    ready = [outputs.current(one, setting.relative(one), section, full=setting.full) for one in inputs]
    stale = [one for one, made in zip(inputs, ready, strict=True) if made is None]
    made = [one for one in ready if one is not None]
    if stale and act:
        setting.watch.phase(setting.table.name, "preprocess")
        made += _run_script(setting, outputs, stale)
    names = [outputs.folder_of(one, setting.relative(one)).name for one in stale]
    inside = setting.table.inside
    files = [file for one in made for file in found_in(one.folder, one.index, one.input.key, inside)]
    return Expanded(
        sorted(files, key=lambda file: file.key),
        waiting=() if act else tuple(setting.waits(one, section) for one in stale),
        hidden=() if act else tuple(f"{name}/" for name in names),
        preprocessing={one.input.key: outputs.entry(one) for one in made},
        made=bool(stale) and act,
    )


def _inputs(setting: Setting, found: list[FoundFile], script: Script) -> list[Input]:
    if not script.together:
        return [one_file(file) for file in found]
    return [all_files(setting.table.path, found)] if found else []


def _run_script(setting: Setting, outputs: Preprocessed, stale: Sequence[Input]) -> list[Made]:
    made = []
    with ExitStack() as locks:
        folders = sorted(outputs.folder_of(one, setting.relative(one)) for one in stale)
        for folder in folders:  # in one order: no deadlock
            locks.enter_context(locked(outputs.lock_of(folder)))
        for one in stale:
            setting.fetch(one)
        tasks = [outputs.task(one, setting.relative(one)) for one in stale]
        paths = setting.in_spark(run_script, tasks) if setting.on_cluster else None
        for number, one in enumerate(stale):
            if paths is None:
                setting.watch.progress(setting.table.name, f"preprocessing {one.key}", number, len(stale))
            path = unless_error(paths[number]) if paths is not None else run_script(tasks[number])
            made.append(outputs.finish(one, setting.relative(one), path, full=setting.full))
    return made
