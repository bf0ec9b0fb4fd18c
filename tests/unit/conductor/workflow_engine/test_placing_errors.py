# SPDX-License-Identifier: Apache-2.0
import pytest

from kilonova.conductor.workflow_engine.placing_errors import CannotPlaceError, refusals
from kilonova.errors import NoValidHost, Unavailable


def test_a_refusal_of_the_scheduler_is_shown_to_the_owner() -> None:
    with pytest.raises(CannotPlaceError) as caught, refusals("req-1"):
        raise NoValidHost(reason="RamFilter removed 3 hosts.")
    failure = caught.value.failure
    assert (failure.message, failure.details) == ("No valid host was found. RamFilter removed 3 hosts.", "")
    assert failure.undone, "a refused claim leaves nothing to undo"


def test_an_unexpected_error_is_described_to_administrators_only(caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(CannotPlaceError) as caught, refusals("req-1"):
        raise ZeroDivisionError("division by zero")
    assert caught.value.message == "Scheduling failed."
    assert caught.value.details == "ZeroDivisionError: division by zero"
    assert "req-1" in caplog.text


def test_an_unavailable_database_is_no_refusal() -> None:
    with pytest.raises(Unavailable), refusals("req-1"):
        raise Unavailable("The database cannot be reached.")
