from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.browser import Browser, browser
from support.page import Server, Shown, served


@pytest.fixture
def shown(tmp_path: Path) -> Shown:
    """A project with two tables, of which nothing was run yet."""
    return Shown(tmp_path / "shipping")


@pytest.fixture
def server(shown: Shown) -> Iterator[Server]:
    with served(shown.folder) as running:
        yield running


@pytest.fixture(scope="session")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with browser(tmp_path_factory.mktemp("chromium")) as running:
        yield running
