# SPDX-License-Identifier: Apache-2.0
"""The entry points of ``pyproject.toml`` as metadata of a distribution, which replaces the installed one."""

import tomllib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]


def entry_points() -> dict[str, dict[str, str]]:
    """Return group → name → target."""
    project: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    found: dict[str, dict[str, str]] = project["entry-points"]
    return found


def write_distribution(folder: Path) -> None:
    """Write a distribution into ``folder``, which is to be on the Python path of a process."""
    info = folder / "kilonova_of_this_tree-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: kilonova-of-this-tree\nVersion: 1\n")
    lines = [
        line
        for group, names in entry_points().items()
        for line in (f"[{group}]", *(f"{name} = {target}" for name, target in names.items()))
    ]
    (info / "entry_points.txt").write_text("\n".join(lines) + "\n")
