# SPDX-License-Identifier: Apache-2.0
"""The Makefile's targets are all phony, and `make help` tells of each of them under a heading."""

import os
import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[2]
LINES = (ROOT / "Makefile").read_text().splitlines()
TARGETS = [match[1] for line in LINES if (match := re.match(r"([a-z0-9-]+):(?!=)", line))]


def test_every_target_is_phony() -> None:
    phony = [name for line in LINES if line.startswith(".PHONY:") for name in line.split()[1:]]
    assert sorted(phony) == sorted(TARGETS)


def test_help_tells_of_every_target_under_its_heading() -> None:
    outside = {key: value for key, value in os.environ.items() if not key.startswith("MAKE")}  # of `make test`
    told = subprocess.run(["make", "help"], cwd=ROOT, env=outside, capture_output=True, text=True, check=True).stdout
    headings = re.findall(r"^\w.*$", told, re.MULTILINE)
    assert headings == ["Run Kilonova", "Every day", "Before a release", "Compare with peers"]
    assert re.findall(r"^  make (\S+) +\S", told, re.MULTILINE) == TARGETS


def test_no_line_is_longer_than_160_characters() -> None:
    assert [line for line in LINES if len(line) > 160] == []
