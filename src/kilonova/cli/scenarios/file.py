# SPDX-License-Identifier: Apache-2.0
"""Find a scenario by its name or by its file."""

from pathlib import Path

import kilonova
from kilonova.errors import ConfigurationError

_PACKAGE = Path(kilonova.__file__).parent
_FOLDERS = (_PACKAGE / "scenarios", _PACKAGE.parent.parent / "scenarios")  # installed; in a checkout


def find_scenario(text: str) -> Path:
    """Return the absolute path of a scenario. Raises: ConfigurationError with the names there are."""
    if Path(text).is_file():
        return Path(text).resolve()
    known = {path.stem: path for folder in _FOLDERS for path in sorted(folder.glob("*.yaml"))}
    if text in known:
        return known[text]
    names = f"; there are {', '.join(sorted(known))}" if known else ""
    raise ConfigurationError(f"no scenario and no file is called {text!r}{names}")
