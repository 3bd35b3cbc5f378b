"""The docs, as files and as the site's pages: every link leads somewhere. `make site` builds the site."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]
FENCED = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)\s]+)\)")


@pytest.fixture(scope="module")
def site() -> ModuleType:
    spec = importlib.util.spec_from_file_location("site_script", ROOT / "scripts" / "site.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def broken_links(site: ModuleType, pages: list[Path]) -> list[str]:
    anchors = {}
    for page in pages:
        text = FENCED.sub("", page.read_text(encoding="utf-8"))
        anchors[page.resolve()] = {site.anchor(one) for one in re.findall(r"^#+ (.+)$", text, re.MULTILINE)}
    broken = []
    for page in pages:
        for link in LINK.findall(FENCED.sub("", page.read_text(encoding="utf-8"))):
            path, _, fragment = link.partition("#")
            if ":" in path:
                continue
            target = (page.parent / path).resolve() if path else page.resolve()
            known = anchors.get(target)
            if not target.exists() or (fragment and (known is None or fragment not in known)):
                broken.append(f"{page.name}: {link}")
    return broken


def test_every_link_in_the_repository_leads_somewhere(site):
    pages = [ROOT / "README.md", ROOT / "CHANGELOG.md", ROOT / "bench" / "RESULTS.md"]
    assert broken_links(site, [*pages, *(ROOT / "docs").rglob("*.md")]) == []


def test_every_link_on_the_site_leads_somewhere_and_every_page_is_listed(site, tmp_path):
    listed = site.put_together(tmp_path / "pages")
    pages = sorted((tmp_path / "pages").rglob("*.md"))
    assert broken_links(site, pages) == []
    names = set(re.findall(r"'([\w/.-]+\.md)'", str(listed)))
    assert names == {page.relative_to(tmp_path / "pages").as_posix() for page in pages}


def test_the_guides_pages_hold_all_of_the_guide(site, tmp_path):
    site.put_together(tmp_path / "pages")
    guide = FENCED.sub("", (ROOT / "docs" / "guide.md").read_text(encoding="utf-8"))
    cut = "\n".join(page.read_text(encoding="utf-8") for page in (tmp_path / "pages" / "guide").glob("*.md"))
    wanted = re.findall(r"^#{2,} .+$", guide, re.MULTILINE)
    assert sorted(wanted) == sorted(re.findall(r"^#{2,} .+$", FENCED.sub("", cut), re.MULTILINE))


def test_a_link_to_nowhere_is_noticed(site, tmp_path):
    page = tmp_path / "a.md"
    page.write_text("# A\n\n## Here\n[one](a.md#here) [two](#there) [three](b.md)\n```\n[four](c.md)\n```\n")
    assert broken_links(site, [page]) == ["a.md: #there", "a.md: b.md"]
