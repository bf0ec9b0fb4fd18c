# SPDX-License-Identifier: Apache-2.0
import pytest

from kilonova import errors
from kilonova.api.faults import HttpError, compute_fault, message_of, status_of


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (errors.InvalidRequest("x"), 400),
        (errors.RequestFilterFailed("x"), 400),
        (errors.Forbidden("x"), 403),
        (errors.NotFound("x"), 404),
        (errors.Conflict("x"), 409),
        (errors.ConcurrentUpdate("x"), 409),
        (errors.UnexpectedTaskState("x"), 409),
        (errors.NoValidHost("x"), 409),
        (errors.Unavailable("x"), 503),
        (errors.StorageFull("/data", "x"), 507),
        (errors.DriverError("x"), 500),
        (errors.ConfigurationError("x"), 500),
        (HttpError(415, "x"), 415),
        (ValueError("x"), 500),
    ],
)
def test_the_status_of_an_error(error: Exception, status: int) -> None:
    assert status_of(error) == status


def test_only_what_is_raised_on_purpose_is_told() -> None:
    assert message_of(errors.NotFound("Flavor 7 could not be found.")) == "Flavor 7 could not be found."
    secret = message_of(ValueError("the password is 1234"))
    assert "1234" not in secret
    assert "ValueError" in secret


@pytest.mark.parametrize(
    ("status", "name"),
    [
        (400, "badRequest"),
        (401, "unauthorized"),
        (403, "forbidden"),
        (404, "itemNotFound"),
        (405, "badMethod"),
        (406, "computeFault"),
        (409, "conflictingRequest"),
        (410, "computeFault"),
        (413, "overLimit"),
        (415, "badMediaType"),
        (429, "overLimit"),
        (500, "computeFault"),
        (501, "notImplemented"),
        (503, "serviceUnavailable"),
    ],
)
def test_the_name_of_a_fault(status: int, name: str) -> None:
    assert compute_fault(status, "x") == {name: {"code": status, "message": "x"}}


def test_headers_of_a_refusal() -> None:
    assert HttpError(401, "x", WWW_Authenticate="Keystone").headers == {"WWW-Authenticate": "Keystone"}
