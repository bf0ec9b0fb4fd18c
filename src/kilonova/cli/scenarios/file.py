# SPDX-License-Identifier: Apache-2.0
"""Finds a scenario by its name or by its file."""

from pathlib import Path

import kilonova
from kilonova.errors import ConfigurationError

_PACKAGE = Path(kilonova.__file__).parent
# folder of scenarios in an installed package, and in a source checkout
_FOLDERS = (_PACKAGE / "scenarios", _PACKAGE.parent.parent / "scenarios")


def find_scenario(text: str) -> Path:
    """Return the absolute path of a scenario. Raises: ConfigurationError listing the known scenarios."""
    if Path(text).is_file():
        return Path(text).resolve()
    known = {path.stem: path for folder in _FOLDERS for path in sorted(folder.glob("*.yaml"))}
    if text in known:
        return known[text]
    names = f"; known scenarios: {', '.join(sorted(known))}" if known else ""
    raise ConfigurationError(f"no scenario or file has the name {text!r}{names}")
