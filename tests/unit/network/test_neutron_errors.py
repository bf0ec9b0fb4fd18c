# SPDX-License-Identifier: Apache-2.0
from typing import Any

import pytest

from kilonova.errors import (
    ConcurrentUpdate,
    Conflict,
    Forbidden,
    InvalidRequest,
    NotFound,
    OverQuota,
    Unavailable,
)
from kilonova.network.neutron_errors import error_of


@pytest.mark.parametrize(
    ("status", "kind", "expected"),
    [
        (400, "InvalidInput", InvalidRequest),
        (414, "", InvalidRequest),
        (422, "", InvalidRequest),
        (403, "PolicyNotAuthorized", Forbidden),
        (404, "PortNotFound", NotFound),
        (409, "MacAddressInUse", Conflict),
        (409, "OverQuota", OverQuota),
        (412, "HTTPPreconditionFailed", ConcurrentUpdate),
        (413, "", OverQuota),
    ],
)
def test_refusals_keep_neutrons_message(status: int, kind: str, expected: type[Exception]) -> None:
    error = error_of(status, {"NeutronError": {"type": kind, "message": "It says.", "detail": "more"}})
    assert (type(error), error.message) == (expected, "It says.")
    assert error.fields == ({"type": kind} if kind else {})


@pytest.mark.parametrize("status", [301, 401, 408, 429, 500, 503])
def test_failures_do_not_show_the_body(status: int) -> None:
    error = error_of(status, {"NeutronError": {"type": "X", "message": "Traceback: password"}})
    assert (type(error), error.message) == (Unavailable, f"The network service answered {status}.")
    assert error.fields == {"status": status}


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"NeutronError": "A text."}, "A text."),
        ({"NeutronError": {"message": "", "detail": "The detail."}}, "The detail."),
        (
            {"code": 404, "title": "Not Found", "message": "The resource could not be found.<br /><br />"},
            "The resource could not be found.<br /><br />",
        ),
        ({"NeutronError": 7}, "The network service answered 404."),
        ({"NeutronError": {"message": None}}, "The network service answered 404."),
    ],
)
def test_other_bodies(body: Any, message: str) -> None:
    assert error_of(404, body).message == message


@pytest.mark.parametrize("body", [None, [1], "gone"])
def test_a_404_of_a_proxy_does_not_say_that_a_resource_is_gone(body: Any) -> None:
    error = error_of(404, body)
    assert (type(error), error.message) == (Unavailable, "The network service answered 404.")


def test_a_refusal_without_json_is_still_a_refusal() -> None:
    assert (type(error_of(409, None)), type(error_of(414, None))) == (Conflict, InvalidRequest)
