# SPDX-License-Identifier: Apache-2.0
"""Common options of commands that read a cloud's configuration, and the settings that these options select."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kilonova.cli.up.data_folder import conf_of_folder
from kilonova.errors import ConfigurationError

if TYPE_CHECKING:  # these modules are slow to import, and --help does not need them
    from kilonova.config.settings import Settings

_CONFIG_FILE = typer.Option("--config-file", help="Configuration file; later ones win.")
ConfigFiles = Annotated[list[str] | None, _CONFIG_FILE]
RequiredConfigFiles = Annotated[list[str], _CONFIG_FILE]
DataFolder = Annotated[
    Path | None, typer.Option(metavar="DIR", help="Data folder of `kilonova up`, instead of a configuration file.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def settings_of_cloud(config_file: Sequence[str] | None, data: Path | None) -> "Settings":
    """Return the settings in the configuration files, or else those of the folder ``data`` or the default data folder.

    Raises: ConfigurationError.
    """
    from kilonova.config.load import load_settings  # noqa: PLC0415 - start-up time

    if config_file:
        return load_settings(config_file)
    conf = conf_of_folder(data)
    if not conf.is_file():
        raise ConfigurationError(f"{conf} does not exist; select the cloud with --data or --config-file")
    return load_settings([str(conf)])
