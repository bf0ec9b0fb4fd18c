# SPDX-License-Identifier: Apache-2.0
"""Sets logging up from the settings of a process."""

import logging
from collections.abc import Callable

from kilonova.config.log import LogSettings
from kilonova.errors import ConfigurationError
from kilonova.logs import setup

LOG = logging.getLogger(__name__)


def configure_log(log: LogSettings) -> None:
    """Configure logging. Raises: ConfigurationError."""
    try:
        setup.configure(debug=log.debug, file=log.file, as_json=log.use_json)
    except OSError as error:
        raise ConfigurationError(
            f"[DEFAULT] log_file: {error.filename} cannot be written: {error.strerror}."
        ) from error


def reread_debug(read: Callable[[], LogSettings]) -> Callable[[], None]:
    """Return a handler for SIGHUP, which applies the current value of the option ``debug`` in the files."""

    def reread() -> None:
        try:
            debug = read().debug
        except ConfigurationError as error:
            LOG.error("Reloading the configuration files failed: %s", error.message)  # noqa: TRY400
            return
        setup.set_level(debug=debug)
        LOG.info("Log level set to %s", "DEBUG" if debug else "INFO")

    return reread
