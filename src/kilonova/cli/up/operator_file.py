# SPDX-License-Identifier: Apache-2.0
"""Reader of the file given as ``kilonova up --config-file``. Options are not checked here, but by started processes."""

import configparser
from collections.abc import Mapping
from pathlib import Path

from kilonova.errors import ConfigurationError


def operator_options(file: Path | None) -> Mapping[str, Mapping[str, str]]:
    """Return section → option → value of the operator's file. Raises: ConfigurationError."""
    parser = configparser.ConfigParser(
        strict=False, interpolation=None, allow_no_value=True, default_section="(no defaults)"
    )
    if file is not None:
        try:
            parser.read(file, encoding="utf-8")
        except (configparser.Error, OSError, UnicodeDecodeError) as error:
            first = str(error).splitlines()[0]
            raise ConfigurationError(f"--config-file {file} cannot be read: {first}") from error
    return {section: dict(parser.items(section)) for section in parser.sections()}
