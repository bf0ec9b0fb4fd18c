# SPDX-License-Identifier: Apache-2.0
"""Exit codes of commands whose exit code 1 means that they have found something."""

from collections.abc import Iterator
from contextlib import contextmanager

from kilonova.errors import ConfigurationError, KilonovaError


@contextmanager
def one_is_an_answer() -> Iterator[None]:
    """Make a command exit with code 2 for all errors, because its exit code 1 means that it has found something.

    Raises: ConfigurationError in place of any other KilonovaError.
    """
    try:
        yield
    except KilonovaError as error:
        raise ConfigurationError(error.message) from error
