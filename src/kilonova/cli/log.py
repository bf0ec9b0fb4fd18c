# SPDX-License-Identifier: Apache-2.0
"""Log as the settings of a process say."""

from kilonova.config.log import LogSettings
from kilonova.errors import ConfigurationError
from kilonova.logs import setup


def configure_log(log: LogSettings) -> None:
    """Begin to log. Raises: ConfigurationError."""
    try:
        setup.configure(debug=log.debug, file=log.file)
    except OSError as error:
        raise ConfigurationError(
            f"[DEFAULT] log_file: {error.filename} cannot be written: {error.strerror}."
        ) from error
