"""The recipe: everything besides the files that decides what a table's rows are.

Each commit stores its hash, and the log what it is the hash of. Where they differ, the rows in the table were
made by other rules; which files have to be read again for that, ingest/reread.py says.
"""

from __future__ import annotations

import ast
import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from lading.errors import ConfigError, TransformError
from lading.model import STRICT, Column, ColumnRule, Format, Layout, NamesPolicy, OnBad, Policy

# Raised when lading itself starts to read the same files differently.
_READING = 4


def facts_of(
    *,
    columns: Sequence[Column],
    fmt: Format,
    read_options: Mapping[str, Any],
    columns_from_name: str | None,
    order_by: str | None,
    bucket_size: int | str | None,
    transform_name: str | None,
    transform_code: bytes | None,
    per: str,
    preprocess: str | None = None,
    rules: str | None = None,
    float_checks: bool = False,
    layout: Layout | None = None,
    policy: Policy = STRICT,
    on_bad: OnBad = "fail",
    names: NamesPolicy = "exact",
    column_rules: Sequence[ColumnRule] = (),
) -> bytes:
    """All of it as canonical JSON; the order of read options doesn't count."""
    facts: dict[str, Any] = {
        "reading": _READING,
        "columns": [[column.name, column.type, *_how(column, fmt)] for column in columns],
        "format": fmt,
        "read_options": dict(read_options),
        "columns_from_name": columns_from_name,
        "order_by": order_by,
        "bucket_size": bucket_size,
        "transform": None if transform_code is None else hashlib.sha256(transform_code).hexdigest(),
        "transform_name": transform_name,
        "per": per if transform_code is not None else None,
    }
    if preprocess is not None:
        facts["preprocess"] = preprocess
    if rules is not None:
        facts["rules"] = rules
    if float_checks:
        facts["float_checks"] = "as float"  # lading 0.1 compared such columns as doubles
    if layout is not None:
        facts["layout"] = [[f.name, f.start, f.length, f.type, f.trim] for f in layout.fields]
        facts["record_type_filter"] = layout.filter
    if policy.drift is None:
        facts["policy"] = [policy.columns, policy.types, policy.by_column]
    elif policy != STRICT:
        facts["drift"] = policy.drift  # another policy lets other files in
    if policy.quarantines and on_bad == "fail":
        facts["on_bad"] = on_bad  # which rows were set aside for a misfit, and which otherwise, isn't known
    if names != "exact":
        facts["names"] = names
    if said := {rule.name: _said(rule) for rule in column_rules if _said(rule)}:
        facts["column_rules"] = said
    return json.dumps(facts, sort_keys=True, separators=(",", ":"), ensure_ascii=True).encode()


def hashed(facts: bytes) -> str:
    """The recipe as commits have it."""
    return hashlib.sha256(facts).hexdigest()


def _said(rule: ColumnRule) -> dict[str, Any]:
    """What a rule says of reading; the type is the column's, and `types` the policy's."""
    facts = {
        "from": sorted(rule.headers) or None,
        "date_format": rule.dates,
        "timestamp_format": rule.timestamps,
        "null": None if rule.nulls is None else sorted(rule.nulls),
        "decimal": rule.decimal,
        "default": rule.default,
    }
    return {key: value for key, value in facts.items() if value is not None}


def _how(column: Column, fmt: Format) -> list[str]:
    """Where a type that was inferred takes fewer values than one that a person wrote."""
    by_value = fmt in ("csv", "tsv", "json") and column.type not in ("string", "boolean")
    return ["inferred"] if column.inferred and by_value else []


def transform_source(project: Path, spec: str) -> tuple[Path, str, bytes]:
    """The file, the function and the code of `transforms/x.py:clean`, its own modules included; never
    outside the project."""
    path, function, _ = project_code(project, spec, "transform")
    return path, function, code_with_imports(project, path)


def project_code(project: Path, spec: str, what: str) -> tuple[Path, str, bytes]:
    """A function of a file of the project; `what` is what people call it."""
    file, _, function = spec.rpartition(":")
    if not file or not function.isidentifier():
        raise ConfigError(
            f"the {what} {spec!r} names no function",
            hint="write it as `transforms/voyages.py:clean`",
        )
    path = (project / file).resolve()
    if not path.is_relative_to(project.resolve()):
        raise ConfigError(
            f"the {what} {spec!r} is outside the project {project}",
            hint="copy the file into the project: code from elsewhere is never run",
            file=str(path),
        )
    try:
        return path, function, path.read_bytes()
    except OSError as error:
        raise TransformError(
            f"the {what} {path} can't be read: {error.strerror}",
            hint="check the name in lading.yaml",
            file=str(path),
        ) from error


def code_with_imports(project: Path, path: Path) -> bytes:
    """The code of a file, followed by what its own modules hash to; the code alone if it has none."""
    code = path.read_bytes()
    top = project.resolve()
    facts = [
        f"\n# {module.relative_to(top)} {hashlib.sha256(module.read_bytes()).hexdigest()}"
        for module in project_imports(project, path)
    ]
    return code + "".join(facts).encode()


def project_imports(project: Path, path: Path) -> tuple[Path, ...]:
    """The project files that `path` imports, directly or not, sorted. They are looked for beside it and at
    the top of the project, as they are when it is run."""
    search = _Search(project.resolve(), path.resolve())
    search.follow(search.path)
    return tuple(sorted(search.found - {search.path}))


class _Search:
    def __init__(self, project: Path, path: Path) -> None:
        self.project = project
        self.path = path
        self.found: set[Path] = set()
        self._roots = (path.parent, project)

    def follow(self, path: Path) -> None:
        if path in self.found:
            return
        self.found.add(path)
        try:
            tree = ast.parse(path.read_bytes(), str(path))
        except (SyntaxError, ValueError):
            return  # running it says so, with the line
        for node in ast.walk(tree):
            for module in self._imported(node, path):
                self._take(module)

    def _imported(self, node: ast.AST, importer: Path) -> Iterator[Path]:
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield from self._at_roots(alias.name.split("."))
        elif isinstance(node, ast.ImportFrom):
            parts = node.module.split(".") if node.module else []
            for name in ([], *([alias.name] for alias in node.names)):
                if 0 < node.level <= len(importer.parents):
                    yield from _modules(importer.parents[node.level - 1], [*parts, *name])
                elif not node.level:
                    yield from self._at_roots([*parts, *name])

    def _at_roots(self, parts: list[str]) -> Iterator[Path]:
        for root in self._roots:
            yield from _modules(root, parts)

    def _take(self, module: Path) -> None:
        real = module.resolve()
        if not real.is_relative_to(self.project):
            raise ConfigError(
                f"{self.path} imports {module}, which is outside the project",
                hint="copy the file into the project: code from elsewhere is never run",
                file=str(self.path),
            )
        self.follow(real)


def _modules(root: Path, parts: list[str]) -> Iterator[Path]:
    """The files that importing `parts` below `root` runs: the packages on the way, then the module."""
    folder = root
    for part in parts:
        folder = folder / part
        for file in (folder / "__init__.py", folder.with_name(f"{part}.py")):
            if file.is_file():
                yield file
