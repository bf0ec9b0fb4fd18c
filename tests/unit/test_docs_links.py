# SPDX-License-Identifier: Apache-2.0
"""Every page of docs/ is found from docs/README.md, and what pages link to is there."""

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
#: Folders of a cloud, not of the tree.
ELSEWHERE = {"log/", "qemu/"}
PAGES = [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]


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


def test_every_page_is_linked_once_from_the_index() -> None:
    linked = Counter(path for path, _ in links(DOCS / "README.md") if path.parent == DOCS and path.suffix == ".md")
    assert linked == Counter(path for path in DOCS.glob("*.md") if path.name != "README.md")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_what_a_page_links_to_is_there(page: Path) -> None:
    broken = [
        f"{path.relative_to(ROOT)}#{heading}"
        for path, heading in links(page)
        if not path.exists() or (heading and heading not in headings(path))
    ]
    assert broken == []


def test_the_index_is_linked_from_the_first_page() -> None:
    assert (DOCS / "README.md", "") in links(ROOT / "README.md")


@pytest.mark.parametrize("page", sorted(DOCS.glob("*.md")), ids=lambda page: page.name)
def test_modules_that_a_page_names_are_there(page: Path) -> None:
    named = set(re.findall(r"`((?:[a-z_0-9]+/)+(?:[a-z_0-9]+\.py)?)`", page.read_text()))
    places = (ROOT, ROOT / "src" / "kilonova", *(ROOT / "src" / "kilonova").iterdir(), ROOT / "tests")
    assert not {name for name in named if not any((place / name).exists() for place in places)} - ELSEWHERE
