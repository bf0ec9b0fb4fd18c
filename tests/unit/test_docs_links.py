# SPDX-License-Identifier: Apache-2.0
"""Every page is linked from an index, and every link of a page leads to an existing file and heading."""

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
#: Folders of a cloud, not of the tree.
ELSEWHERE = {"log/", "qemu/"}
#: Pages at the top of the tree, with those that README.md links to.
TOP = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md")]
PAGES = [*TOP, *sorted(DOCS.rglob("*.md"))]


def links(page: Path) -> Iterator[tuple[Path, str]]:
    """The files that a page links to by relative paths, each with the heading it names or ""."""
    text = re.sub(r"^```.*?^```$|`[^`\n]*`", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if "://" not in target:
            path, _, heading = target.partition("#")
            yield (page.parent / path).resolve() if path else page, heading


def headings(page: Path) -> set[str]:
    """The anchors of a page's headings, as hosts of Git repositories make them."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    return {
        re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
        for heading in re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    }


def test_the_index_lists_every_page_once() -> None:
    """An entry is a row of a table that begins with the link."""
    entries = re.findall(r"^\| \[[^\]]+\]\(([^)/#]+\.md)\)", (DOCS / "README.md").read_text(), re.MULTILINE)
    assert Counter(entries) == Counter(path.name for path in DOCS.glob("*.md") if path.name != "README.md")


def test_the_list_of_decisions_names_each_of_them_once() -> None:
    folder = DOCS / "adr"
    linked = Counter(path for path, _ in links(folder / "README.md"))
    assert linked == Counter(path for path in folder.glob("*.md") if path.name != "README.md")


def test_no_file_of_the_documentation_is_without_a_link() -> None:
    linked = {path for page in PAGES for path, _ in links(page) if path != page}
    files = {path for path in DOCS.rglob("*") if path.is_file()}
    assert sorted(str(path) for path in (files | set(TOP)) - linked - {ROOT / "README.md"}) == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_of_a_page_leads_somewhere(page: Path) -> None:
    broken = [
        f"{path.relative_to(ROOT)}#{heading}"
        for path, heading in links(page)
        if not path.exists() or (heading and heading not in headings(path))
    ]
    assert broken == []


def test_the_first_page_links_to_the_index_and_to_the_other_pages_at_the_top() -> None:
    linked = {path for path, _ in links(ROOT / "README.md")}
    assert {DOCS / "README.md", *TOP} - {ROOT / "README.md"} <= linked


@pytest.mark.parametrize("page", sorted(DOCS.glob("*.md")), ids=lambda page: page.name)
def test_modules_that_a_page_names_exist(page: Path) -> None:
    named = set(re.findall(r"`((?:[a-z_0-9]+/)+(?:[a-z_0-9]+\.py)?)`", page.read_text()))
    places = (ROOT, ROOT / "src" / "kilonova", *(ROOT / "src" / "kilonova").iterdir(), ROOT / "tests")
    assert not {name for name in named if not any((place / name).exists() for place in places)} - ELSEWHERE
