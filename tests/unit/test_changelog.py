# SPDX-License-Identifier: Apache-2.0
"""Fragments have names that towncrier knows, and CHANGELOG.md holds the summaries that it makes of them."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
SETTINGS = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["towncrier"]
TYPES = {each["directory"] for each in SETTINGS["type"]}
FRAGMENTS = sorted(path for path in (ROOT / SETTINGS["directory"]).iterdir() if path.name != "template.md.jinja")


def test_every_fragment_has_a_name_of_a_type_that_towncrier_knows() -> None:
    named = re.compile(
        rf"\d{{4}}-[a-z0-9-]+\.({'|'.join(sorted(TYPES - {'summary'}))})\.md|s\d\d-[a-z0-9-]+\.summary\.md"
    )
    assert [path.name for path in FRAGMENTS if not named.fullmatch(path.name)] == []


def test_no_two_fragments_have_one_number() -> None:
    numbers = [path.name.partition("-")[0] for path in FRAGMENTS]
    assert sorted({number for number in numbers if numbers.count(number) > 1}) == []


def test_a_draft_of_towncrier_is_the_section_of_the_changelog() -> None:
    command = (sys.executable, "-m", "towncrier", "build", "--draft", "--date", "unreleased")
    draft = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert draft.strip() in (ROOT / "CHANGELOG.md").read_text(), "write the section anew: make changelog"
