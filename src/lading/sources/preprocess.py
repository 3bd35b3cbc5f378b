"""Preprocess scripts: a user's function that turns files which lading can't read into files which it can.

`process(path, out_dir, **options)` writes what it likes below `out_dir`; its files then are source files
like the members of an archive. It is run again when its input, its code or its options change, and not
otherwise. The code comes from a file of the project and travels as bytes, so that a Spark task runs what
the recipe was computed from.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from stat import S_ISREG
from typing import Any

import msgspec

from lading.config.archives import Preprocess
from lading.errors import LadingError, PreprocessError
from lading.formats.source_file import SourceFile
from lading.layout.beside import inputs_beside, lock_of
from lading.layout.project import INDEXES, PREPROCESSED, made_folder
from lading.sources.archives.extract import ExtractedFile
from lading.sources.archives.index import (
    Index,
    fill_fresh,
    is_whole,
    put_in_place,
    put_index,
    read_index,
    sweep,
)
from lading.sources.archives.input import Input, Proof, proof_of
from lading.sources.archives.names import BadName, safe_name
from lading.sources.archives.scratch import Apart, Making
from lading.sources.fingerprint import digest, time_ns, unmoved
from lading.sources.recipe import project_code


@dataclass(frozen=True, slots=True)
class Script:
    """A function in a file of the project, with its options."""

    action: str  # as lading.yaml names it
    path: str
    function: str
    code: bytes
    options: dict[str, Any]
    together: bool  # one call for all files, not one a file

    @property
    def made_by(self) -> str:
        """Changes with the code and with the options."""
        facts = [self.function, hashlib.sha256(self.code).hexdigest(), self.options, self.together]
        return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class ScriptTask:
    """All that one call takes; may travel to a Spark task."""

    script: Script
    files: tuple[tuple[str, str], ...]  # key and path
    shown: str
    folder: str
    made_from: str
    sha256: str


@dataclass(frozen=True, slots=True)
class Made:
    """An input whose outputs are current."""

    input: Input
    folder: Path
    index: Index
    proof: Proof
    apart: bool  # whether only tasks have the outputs: the folder holds nothing but their index


def load_script(project: Path, spec: Preprocess) -> Script:
    path, function, code = project_code(project, spec.action, "preprocess script")
    try:
        json.dumps(spec.options)
    except (TypeError, ValueError) as error:
        raise PreprocessError(
            f"preprocess.options may only contain text, numbers, lists and mappings: {error}",
            hint="put dates and similar values in quotes",
        ) from error
    return Script(spec.action, str(path), function, code, spec.options, spec.scope == "global")


class Preprocessed:
    """The outputs of one table's script. Those `apart` are made by tasks, each for itself on its own machine:
    then only their indexes are kept."""

    def __init__(
        self, project: Path, cache: Path, table: str, script: Script, *, apart: bool = False
    ) -> None:
        self.folder = (cache / INDEXES if apart else cache) / PREPROCESSED / table
        self._apart = apart
        self._project = project
        self._script = script

    def folder_of(self, given: Input, relative: str) -> Path:
        return self.folder / made_folder("all" if self._script.together else given.key, relative)

    def lock_of(self, folder: Path) -> Path:
        return folder.with_name(lock_of(folder.name))

    def current(self, given: Input, relative: str, section: Mapping[str, Any], *, full: bool) -> Made | None:
        """The outputs, if running the script now would give the same. Writes nothing."""
        folder = self.folder_of(given, relative)
        proof = self._recorded(section.get(given.key), folder)
        index = read_index(folder)
        if proof is None or index is None:
            return None
        if (index.sha256, index.made_by) != (proof.sha256, self._script.made_by):
            return None
        if not (self._apart or is_whole(folder, index)) or not given.is_still(proof, full=full):
            return None
        return Made(given, folder, index, given.renewed(proof), self._apart)

    def task(self, given: Input, relative: str) -> ScriptTask:
        """The caller holds the folder's lock, from here to `finish`."""
        folder = self.folder_of(given, relative)
        sweep(folder)
        files = tuple((file.key, file.path) for file in given.files)
        return ScriptTask(self._script, files, given.key, str(folder), relative, given.sha256)

    def apart(self, given: Input, relative: str, files: Sequence[SourceFile]) -> Apart:
        """How tasks run the script on files in a bucket."""
        task = ScriptTask(self._script, tuple((file.key, "") for file in files), given.key, "", relative, "")
        names = tuple(os.path.basename(file.path) for file in given.files)
        making = Making(tuple(files), names, partial(_run_on_copies, task))
        return Apart(lambda: making, given.key)

    def finish_apart(self, given: Input, relative: str, index: Index, *, full: bool) -> Made:
        folder = self.folder_of(given, relative)
        put_index(folder, index)
        return Made(given, folder, index, given.proof(full=full, sha256=index.sha256), self._apart)

    def finish(self, given: Input, relative: str, fresh: str, *, full: bool) -> Made:
        folder = self.folder_of(given, relative)
        moved = next((file for file in given.files if file.fingerprint is None and not unmoved(file)), None)
        if moved is not None:
            sweep(folder)
            raise PreprocessError(
                f"{moved.key} changed while {self._script.action} was processing it",
                hint="run again when the file is complete; nothing was committed",
                file=moved.key,
            )
        proof = given.proof(full=full)
        return Made(given, folder, put_in_place(Path(fresh), folder), proof, self._apart)

    def entry(self, made: Made) -> dict[str, Any]:
        """Its place in the section `preprocessing` of manifest/<table>.json."""
        proof: dict[str, Any] = msgspec.to_builtins(made.proof)
        return {
            "file_hash": proof.pop("hash"),
            "preprocessed_path": self._shown(made.folder),
            "action": self._script.action,
            "code": self._script.made_by,
            **proof,
        }

    def _recorded(self, entry: Any, folder: Path) -> Proof | None:
        if not isinstance(entry, dict) or entry.get("preprocessed_path") != self._shown(folder):
            return None
        if (entry.get("action"), entry.get("code")) != (self._script.action, self._script.made_by):
            return None
        return proof_of(entry)

    def _shown(self, folder: Path) -> str:
        return os.path.relpath(folder, self._project).replace(os.sep, "/")


def run_script(task: ScriptTask) -> str:
    """Run it into a fresh folder; its path, for `Preprocessed.finish`."""

    def fill(fresh: Path) -> list[ExtractedFile]:
        _call(task, fresh)
        return _outputs(task, fresh)

    return str(
        fill_fresh(
            Path(task.folder),
            fill,
            made_from=task.made_from,
            made_by=task.script.made_by,
            sha256=task.sha256,
        )
    )


def _run_on_copies(task: ScriptTask, copies: Sequence[str], folder: str, sha256: str) -> str:
    files = tuple((key, copy) for (key, _), copy in zip(task.files, copies, strict=True))
    return run_script(replace(task, files=files, folder=folder, sha256=sha256))


def _call(task: ScriptTask, fresh: Path) -> None:
    script = task.script
    links = fresh.with_name(inputs_beside(fresh.name)) if script.together else None
    scope: dict[str, Any] = {"__name__": "lading_preprocess", "__file__": script.path}
    try:
        path = Path(task.files[0][1]) if links is None else _linked(task, links)
        exec(compile(script.code, script.path, "exec"), scope)
        function = scope.get(script.function)
        if not callable(function):
            raise _failed(task, f"there is no function {script.function!r} in it")
        function(path, fresh, **script.options)
    except LadingError:
        raise
    except Exception as error:
        line = error.lineno if isinstance(error, SyntaxError) else _line_in(script.path, error)
        words = (str(error).strip() or "no message").splitlines()[0]
        place = f"line {line}: " if line else ""
        raise _failed(task, f"{place}{type(error).__name__}: {words}") from error
    finally:
        if links is not None:
            shutil.rmtree(links, ignore_errors=True)


def _linked(task: ScriptTask, folder: Path) -> Path:
    """A folder with links to exactly the table's files, under their keys."""
    for key, path in task.files:
        link = folder / safe_name(key)
        link.parent.mkdir(parents=True, exist_ok=True)
        os.symlink(path, link)
    folder.mkdir(exist_ok=True)
    return folder


def _outputs(task: ScriptTask, fresh: Path) -> list[ExtractedFile]:
    found = []
    for folder, folders, names in os.walk(fresh):
        for name in [*names, *(name for name in folders if os.path.islink(os.path.join(folder, name)))]:
            path = os.path.join(folder, name)
            relative = os.path.relpath(path, fresh)
            stat = os.stat(path, follow_symlinks=False)
            if not S_ISREG(stat.st_mode):
                raise _failed(task, f"it wrote {relative!r}, which is not a regular file")
            try:
                safe_name(relative)
            except BadName as problem:
                raise _failed(task, f"it wrote a file whose name {relative!r} {problem}") from None
            found.append(ExtractedFile(relative, stat.st_size, time_ns(stat), digest(path).sha256))
    return found


def _failed(task: ScriptTask, problem: str) -> PreprocessError:
    return PreprocessError(
        f"{task.script.action} on {task.shown}: {problem}",
        hint="fix the script; nothing was committed",
        file=task.shown,
    )


def _line_in(path: str, error: BaseException) -> int | None:
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == path]
    return lines[-1] if lines else None
