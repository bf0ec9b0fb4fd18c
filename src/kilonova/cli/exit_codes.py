# SPDX-License-Identifier: Apache-2.0
"""Exit codes of commands that report findings by exit code 1."""

from collections.abc import Iterator
from contextlib import contextmanager

from kilonova.errors import ConfigurationError, KilonovaError


@contextmanager
def one_is_an_answer() -> Iterator[None]:
    """Make a command exit with 2 for errors, because its exit code 1 reports findings.

    Raises: ConfigurationError for any error of Kilonova.
    """
    try:
        yield
    except KilonovaError as error:
        raise ConfigurationError(error.message) from error
