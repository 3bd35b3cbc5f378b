"""Builds the docs site in site/, from README.md, docs/ and bench/: `make site`.

The files in the repository stay the source. Here they are put together as the site has them: the guide is
cut into pages by topic, folders get a page that lists them, and links follow. mkdocs then makes the site,
strictly: a link that leads nowhere fails it.

python scripts/site.py FOLDER    only put the pages together, below FOLDER
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import yaml

ROOT = Path(__file__).parent.parent
PAGES = ROOT / ".site-docs"

# Pages of the guide: title, and its sections. A section that is not named goes with the one before it.
GUIDE = {
    "start": ("Starting", ("Start", "Add", "The config")),
    "files": ("Reading files", ("Read options", "Typed files", "Workbooks", "Fixed width", "Archives",
                                "Preprocessing", "Files in a bucket")),
    "columns": ("Columns and types", ("Columns", "Schemas", "Drift", "Transforms")),
    "derived": ("Tables made of tables", ("Tables made of tables",)),
    "checks": ("Checks and bad rows", ("Checks", "Quarantine", "Gates")),
    "runs": ("Running", ("What a run decides", "On a cluster", "When something goes wrong")),
    "watching": ("Watching", ("Watching", "In a browser", "Metrics", "Lineage events")),
    "reading": ("Reading", ("Reading", "Other libraries", "Iceberg", "Collections")),
    "keys": ("Serving by key", ("Serving by key", "Reading by key")),
    "upkeep": ("History and upkeep", ("History and rollback", "Merging", "Cleaning", "Verify and repair")),
    "places": ("Stores and buckets", ("Stores", "A warehouse in a bucket", "Google and Azure")),
}  # fmt: skip

_HEADING = re.compile(r"^## (.+)$", re.MULTILINE)
_FENCED = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"(\]\()([^)\s]+)(\))")


def put_together(pages: Path) -> list[object]:
    """All pages below `pages`, and how they are listed."""
    shutil.rmtree(pages, ignore_errors=True)
    shutil.copytree(ROOT / "docs", pages)
    shutil.copytree(ROOT / "bench" / "pictures", pages / "bench" / "pictures")
    shutil.copy(ROOT / "bench" / "RESULTS.md", pages / "bench" / "results.md")
    shutil.copy(ROOT / "CHANGELOG.md", pages / "changes.md")
    shutil.copy(ROOT / "README.md", pages / "index.md")
    _list_folder(pages / "decisions", "Decisions", "What was decided, what was rejected, and why.")
    _list_folder(
        pages / "format", "Formats on disk", "Every byte that lading writes; tests run the examples."
    )
    sections = _cut_guide(pages)
    for page in sorted(pages.rglob("*.md")):
        _lead_on(page, pages, sections)
    return _listed(pages)


def _list_folder(folder: Path, title: str, about: str) -> None:
    lines = [f"- [{_title(page)}]({page.name})" for page in sorted(folder.glob("*.md"))]
    (folder / "index.md").write_text(f"# {title}\n\n{about}\n\n" + "\n".join(lines) + "\n", encoding="utf-8")


def _title(page: Path) -> str:
    return page.read_text(encoding="utf-8").partition("\n")[0].removeprefix("# ")


def _cut_guide(pages: Path) -> dict[str, str]:
    """The guide's sections as pages below guide/: each one's anchor, and the page that it is on."""
    whole = (pages / "guide.md").read_text(encoding="utf-8")
    (pages / "guide.md").unlink()
    (pages / "guide").mkdir()
    at = {section: name for name, (_, sections) in GUIDE.items() for section in sections}
    starts = [match for match in _HEADING.finditer(whole) if not _is_fenced(whole, match.start())]
    ends = [match.start() for match in starts[1:]] + [len(whole)]
    texts: dict[str, dict[str, str]] = {name: {} for name in GUIDE}
    found, page = {}, "start"
    for match, end in zip(starts, ends, strict=True):
        page = at.get(match[1], page)
        texts[page][match[1]] = whole[match.start() : end]
        found[anchor(match[1])] = f"guide/{page}.md"
    for name, (title, sections) in GUIDE.items():
        ordered = [one for one in sections if one in texts[name]]
        ordered += [one for one in texts[name] if one not in sections]
        body = "".join(texts[name][one] for one in ordered)
        (pages / "guide" / f"{name}.md").write_text(f"# {title}\n\n{body}", encoding="utf-8")
    topics = "\n".join(
        f"- {title}: " + ", ".join(f"[{one}](guide.md#{anchor(one)})" for one in texts[name])
        for name, (title, _) in GUIDE.items()
    )
    opening = whole[: starts[0].start()].partition("\n- ")[0]
    (pages / "guide" / "index.md").write_text(f"{opening}\n{topics}\n", encoding="utf-8")
    return found


def _is_fenced(text: str, at: int) -> bool:
    return any(match.start() < at < match.end() for match in _FENCED.finditer(text))


def anchor(heading: str) -> str:
    """As GitHub and mkdocs name it."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def _lead_on(page: Path, pages: Path, sections: dict[str, str]) -> None:
    """Turn links between files of the repository into links between pages of the site."""
    text = page.read_text(encoding="utf-8")
    here = page.relative_to(pages)

    def led(match: re.Match[str]) -> str:
        if "://" in match[2] or match[2].startswith("mailto:"):
            return match[0]
        return f"{match[1]}{_target(here, match[2], sections)}{match[3]}"

    page.write_text(_outside_code(text, lambda part: _LINK.sub(led, part)), encoding="utf-8")


def _outside_code(text: str, change: Callable[[str], str]) -> str:
    done, parts = 0, []
    for match in _FENCED.finditer(text):
        parts += [change(text[done : match.start()]), match[0]]
        done = match.end()
    return "".join([*parts, change(text[done:])])


# Files of the repository that are elsewhere on the site.
_MOVED = {
    "README.md": "index.md",
    "CHANGELOG.md": "changes.md",
    "bench/RESULTS.md": "bench/results.md",
    "docs/decisions/": "decisions/index.md",
    "docs/format/": "format/index.md",
}
_FROM = {site: source for source, site in _MOVED.items()}


def _target(here: Path, link: str, sections: dict[str, str]) -> str:
    path, _, fragment = link.partition("#")
    if here.parts[0] == "guide":
        source = "docs/guide.md"
    else:
        source = _FROM.get(here.as_posix(), f"docs/{here.as_posix()}")
    at = _joined(source, path) if path else source
    if at in ("docs/guide.md", "docs/guide"):
        target = sections.get(fragment, "guide/index.md")
    else:
        target = _MOVED.get(at) or _MOVED.get(f"{at}/") or at.removeprefix("docs/")
    if target == here.as_posix() and fragment:
        return f"#{fragment}"
    up = "../" * (len(here.parts) - 1)
    return f"{up}{target}" + (f"#{fragment}" if fragment else "")


def _joined(source: str, path: str) -> str:
    parts = source.split("/")[:-1]
    for part in path.rstrip("/").split("/"):
        if part == "..":
            parts = parts[:-1]
        elif part != ".":
            parts.append(part)
    return "/".join(parts)


def _listed(pages: Path) -> list[object]:
    guide = ["guide/index.md", *({title: f"guide/{name}.md"} for name, (title, _) in GUIDE.items())]

    def below(folder: str) -> list[str]:
        found = sorted(page.name for page in (pages / folder).glob("*.md") if page.name != "index.md")
        return [f"{folder}/index.md", *(f"{folder}/{name}" for name in found)]

    return [
        {"lading": ["index.md", {"Changes": "changes.md"}]},
        {"Tutorial": "tutorial.md"},
        {"Guide": guide},
        {"With": [{"Dagster": "dagster.md"}, {"Airflow": "airflow.md"}]},
        {"Reference": [{"Commands": "reference/cli.md"}]},
        {"Formats": below("format")},
        {
            "Inside": [
                "map.md",
                {"Benchmarks": ["bench.md", "bench/results.md"]},
                {"Decisions": below("decisions")},
            ]
        },
    ]


def main() -> int:
    if len(sys.argv) > 1:
        put_together(Path(sys.argv[1]))
        return 0
    config = ROOT / ".site-docs.yml"
    nav = put_together(PAGES)
    config.write_text(
        yaml.safe_dump({"INHERIT": "mkdocs.yml", "nav": nav}, sort_keys=False), encoding="utf-8"
    )
    build = [sys.executable, "-m", "mkdocs", "build", "--clean", "--strict", "-f", str(config)]
    return subprocess.run(build, env=os.environ | {"NO_MKDOCS_2_WARNING": "1"}).returncode


if __name__ == "__main__":
    sys.exit(main())
