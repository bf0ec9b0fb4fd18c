# SPDX-License-Identifier: Apache-2.0
"""What commands that read the configuration of a cloud share: their options, and the settings that these lead to."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kilonova.cli.up.data_folder import conf_of_folder
from kilonova.errors import ConfigurationError

if TYPE_CHECKING:  # slow to import, and not needed to show the help
    from kilonova.config.settings import Settings

ConfigFiles = Annotated[list[str] | None, typer.Option("--config-file", help="Configuration file; later ones win.")]
DataFolder = Annotated[
    Path | None, typer.Option(metavar="DIR", help="Data folder of `kilonova up`, instead of a configuration file.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def settings_of_cloud(config_file: Sequence[str] | None, data: Path | None) -> "Settings":
    """Return what the configuration files say, or that of the data folder, or of the default one.

    Raises: ConfigurationError.
    """
    from kilonova.config.load import load_settings  # noqa: PLC0415 - start-up time

    if config_file:
        return load_settings(config_file)
    conf = conf_of_folder(data)
    if not conf.is_file():
        raise ConfigurationError(f"{conf} is not there; name the cloud with --data or --config-file")
    return load_settings([str(conf)])
