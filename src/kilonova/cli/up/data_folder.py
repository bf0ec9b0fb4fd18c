# SPDX-License-Identifier: Apache-2.0
"""The default data folder of ``kilonova up``, and the configuration file in a data folder."""

import os
from pathlib import Path

#: The default data folder as help texts show it.
DEFAULT_FOLDER = "$XDG_DATA_HOME/kilonova or ~/.local/share/kilonova"


def default_folder() -> Path:
    """Return the default data folder."""
    data_home = os.environ.get("XDG_DATA_HOME") or str(Path.home() / ".local" / "share")
    return Path(data_home) / "kilonova"


def conf_of_folder(data: Path | None) -> Path:
    """Return the path of the configuration file in a data folder. ``data``: the folder; None: the default folder."""
    return (data or default_folder()).expanduser() / "kilonova.conf"
