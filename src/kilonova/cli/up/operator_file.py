# SPDX-License-Identifier: Apache-2.0
"""Reader of the file given as ``kilonova up --config-file``. Options are not checked here, but by started processes."""

import configparser
from collections.abc import Mapping
from pathlib import Path

from kilonova.config.workers import require_server_database
from kilonova.errors import ConfigurationError

_OWN_DATABASE = "sqlite://"


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


def require_possible_workers(operator: Mapping[str, Mapping[str, str]]) -> None:
    """Raise ConfigurationError if several workers would share the SQLite database of ``kilonova up``."""
    workers = operator.get("DEFAULT", {}).get("osapi_compute_workers") or ""
    connection = operator.get("database", {}).get("connection") or _OWN_DATABASE
    if workers.isdecimal():  # the control process refuses values that are no number
        require_server_database(int(workers), connection)
