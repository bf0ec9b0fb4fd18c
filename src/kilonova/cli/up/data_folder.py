# SPDX-License-Identifier: Apache-2.0
"""Default locations of the clouds of ``kilonova up``."""

import os
from pathlib import Path


def default_folder() -> Path:
    """Return the default data folder."""
    data_home = os.environ.get("XDG_DATA_HOME") or str(Path.home() / ".local" / "share")
    return Path(data_home) / "kilonova"


def conf_of_folder(data: Path | None) -> Path:
    """Return the configuration file in a data folder; None stands for the default folder."""
    return (data or default_folder()).expanduser() / "kilonova.conf"
