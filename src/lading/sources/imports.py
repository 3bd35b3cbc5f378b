"""The project's own modules that a piece of user code imports, found without running anything.

They decide what a transform does as much as its own file does, so they are part of the recipe. Every
`import` counts, wherever it stands, and those of the modules it finds too. What can't be seen in the
text (`importlib.import_module(name)`) can't be found here; the guide says so.
"""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterator
from pathlib import Path

from lading.errors import ConfigError


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
                f"{self.path} imports {module}, which lies outside the project",
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
