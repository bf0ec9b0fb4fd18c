# SPDX-License-Identifier: Apache-2.0
import pytest

from kilonova.cli.exit_codes import one_is_an_answer
from kilonova.errors import ConfigurationError, Unavailable


def test_an_error_is_not_taken_for_a_finding() -> None:
    with pytest.raises(ConfigurationError, match="cannot be reached"), one_is_an_answer():
        raise Unavailable("The database cannot be reached.")


def test_a_bug_stays_a_bug() -> None:
    with pytest.raises(ZeroDivisionError), one_is_an_answer():
        raise ZeroDivisionError
