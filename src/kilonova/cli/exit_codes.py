# SPDX-License-Identifier: Apache-2.0
"""What the exit code of a command says beside success and failure."""

from collections.abc import Iterator
from contextlib import contextmanager

from kilonova.errors import ConfigurationError, KilonovaError


@contextmanager
def one_is_an_answer() -> Iterator[None]:
    """Have a command whose exit code 1 tells that something was found end with 2 when it could not look.

    Raises: ConfigurationError, for any error of Kilonova's own.
    """
    try:
        yield
    except KilonovaError as error:
        raise ConfigurationError(error.message) from error
