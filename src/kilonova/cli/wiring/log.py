# SPDX-License-Identifier: Apache-2.0
"""Log as the settings of a process say."""

import logging
from collections.abc import Callable

from kilonova.config.log import LogSettings
from kilonova.errors import ConfigurationError
from kilonova.logs import setup

LOG = logging.getLogger(__name__)


def configure_log(log: LogSettings) -> None:
    """Begin to log. Raises: ConfigurationError."""
    try:
        setup.configure(debug=log.debug, file=log.file, as_json=log.use_json)
    except OSError as error:
        raise ConfigurationError(
            f"[DEFAULT] log_file: {error.filename} cannot be written: {error.strerror}."
        ) from error


def reread_debug(read: Callable[[], LogSettings]) -> Callable[[], None]:
    """Return what to do at SIGHUP: log as much as ``debug`` in the configuration files says now."""

    def reread() -> None:
        try:
            debug = read().debug
        except ConfigurationError as error:
            LOG.error("The configuration files were not read again: %s", error.message)  # noqa: TRY400
            return
        setup.set_level(debug=debug)
        LOG.info("The log is at level %s from now on", "DEBUG" if debug else "INFO")

    return reread
