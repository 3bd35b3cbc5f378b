"""A transform's own modules are part of the recipe, however it imports them."""

from __future__ import annotations

from pathlib import Path

import pytest

from lading.errors import ConfigError
from lading.sources.recipe import project_imports, transform_source


def _project(tmp_path: Path, **files: str) -> Path:
    for name, text in files.items():
        path = tmp_path / (name.replace("__", "/") + ".py")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path


def _imports(project: Path, name: str = "transforms/clean.py") -> set[str]:
    return {str(path.relative_to(project)) for path in project_imports(project, project / name)}


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("import beside", {"transforms/beside.py"}),
        ("import top", {"top.py"}),
        ("import pack.inner", {"pack/__init__.py", "pack/inner.py"}),
        ("from pack import inner", {"pack/__init__.py", "pack/inner.py"}),
        ("from pack.inner import thing", {"pack/__init__.py", "pack/inner.py"}),
        ("def f():\n    if True:\n        import beside", {"transforms/beside.py"}),
        ("import os, pyspark, nowhere", set()),
    ],
)
def test_every_import_of_a_project_file_is_found_wherever_it_stands(
    tmp_path: Path, line: str, found: set[str]
) -> None:
    project = _project(
        tmp_path,
        transforms__clean=line,
        transforms__beside="x = 1",
        top="x = 1",
        pack____init__="",
        pack__inner="thing = 1",
    )
    (tmp_path / "pack" / "__init__.py").write_text("")
    assert _imports(project) == found


def test_imports_of_imports_count_and_circles_end(tmp_path: Path) -> None:
    project = _project(tmp_path, transforms__clean="import a", a="import b", b="import a\nimport c", c="")
    assert _imports(project) == {"a.py", "b.py", "c.py"}


def test_relative_imports_inside_a_package_are_followed(tmp_path: Path) -> None:
    project = _project(
        tmp_path, transforms__clean="import pack.a", pack__a="from . import b\nfrom .c import d"
    )
    for name in ("__init__", "b", "c"):
        (tmp_path / "pack" / f"{name}.py").write_text("")
    assert _imports(project) == {"pack/__init__.py", "pack/a.py", "pack/b.py", "pack/c.py"}


def test_nothing_is_executed_and_broken_code_is_left_to_the_run(tmp_path: Path) -> None:
    project = _project(tmp_path, transforms__clean="import a\nimport b", a="raise SystemExit", b="def (")
    assert _imports(project) == {"a.py", "b.py"}


def test_a_change_in_a_module_that_it_imports_changes_the_code_of_a_transform(tmp_path: Path) -> None:
    project = _project(tmp_path, transforms__clean="import a\ndef f(df, c): return df", a="x = 1")
    before = transform_source(project, "transforms/clean.py:f")[2]
    (tmp_path / "a.py").write_text("x = 2")
    after = transform_source(project, "transforms/clean.py:f")[2]
    assert before != after
    assert before.startswith(b"import a")


def test_a_module_that_is_a_link_to_the_outside_is_refused(tmp_path: Path) -> None:
    project = _project(tmp_path / "project", transforms__clean="import a")
    (tmp_path / "evil.py").write_text("")
    (project / "a.py").symlink_to(tmp_path / "evil.py")
    with pytest.raises(ConfigError, match=r"a\.py, which is outside the project"):
        project_imports(project, project / "transforms/clean.py")
