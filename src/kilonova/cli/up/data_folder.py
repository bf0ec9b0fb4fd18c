# SPDX-License-Identifier: Apache-2.0
"""Where the clouds of ``kilonova up`` are."""

import os
from pathlib import Path


def default_folder() -> Path:
    """Return the data folder of a cloud that no folder was named for."""
    data_home = os.environ.get("XDG_DATA_HOME") or str(Path.home() / ".local" / "share")
    return Path(data_home) / "kilonova"


def conf_of_folder(data: Path | None) -> Path:
    """Return where the configuration of a data folder is, None standing for the default one."""
    return (data or default_folder()).expanduser() / "kilonova.conf"
