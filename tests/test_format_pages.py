"""docs/format/: every example on the pages is run, so they can't say what the code doesn't do."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

PAGES = sorted((Path(__file__).parents[1] / "docs" / "format").glob("*.md"))
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_examples_of_a_format_page_hold(page):
    text = page.read_text(encoding="utf-8")
    blocks = list(BLOCK.finditer(text))
    assert blocks, "a format page has byte-for-byte examples"
    names: dict[str, object] = {}
    for block in blocks:
        line = text[: block.start()].count("\n") + 1
        exec(compile("\n" * line + block[1], str(page), "exec"), names)


def test_the_pages_that_the_formats_need_are_there():
    assert {"log.md", "members.md", "table-manifest.md", "pointer.md"} <= {page.name for page in PAGES}
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        for link in re.findall(r"\]\(([a-z-]+\.md)\)", text):
            assert (page.parent / link).is_file(), f"{page.name} links to {link}"


def test_the_tables_on_the_page_are_the_ones_that_are_written():
    from lading.state import tables as state_file

    page = (PAGES[0].parent / "members.md").read_text(encoding="utf-8")
    shown = re.findall(r"CREATE TABLE .*?;", page, re.DOTALL)
    assert len(shown) == 4
    for statement in shown:
        assert statement in state_file._TABLES
