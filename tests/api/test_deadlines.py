# SPDX-License-Identifier: Apache-2.0
"""A request that only reads ends when its time is over or its client has gone; one that changes something goes on."""

import logging

import pytest

from kilonova.api.application import WsgiApp
from kilonova.wsgi_keys import CLIENT_GONE
from support.api_client import Client
from support.control import IMAGE, Control, NewControl


@pytest.fixture
def hasty(new_control: NewControl) -> Control:
    """A control process that gives up every GET."""
    return new_control(more="[api]\nrequest_timeout = 0.000001\n")


READING = ["/servers/detail", "/flavors/detail", "/os-hypervisors/detail", "/os-aggregates"]


@pytest.mark.parametrize("path", READING)
def test_a_get_whose_time_is_over_is_told_so_in_one_line(
    hasty: Control, path: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO):
        answer = hasty.admin.get(path)
    assert answer.status == 503
    assert answer.fault == ("serviceUnavailable", "The request took longer than the service allows.")
    (record,) = [each for each in caplog.records if each.name.startswith("kilonova.api")]
    assert record.exc_info is None
    assert path in record.getMessage()


def test_placement_tells_it_in_its_own_words(hasty: Control) -> None:
    answer = hasty.placement.get("/resource_providers")
    assert (answer.status, answer.detail) == (503, "The request took longer than the service allows.")


def test_what_changes_something_is_never_given_up(hasty: Control) -> None:
    gone = Client(left(hasty.process.application), "alice:wonder", "2.100")
    asked = {"name": "vm", "imageRef": IMAGE, "flavorRef": "1", "networks": "auto"}
    assert gone.post("/servers", {"server": asked}).status == 202


def test_a_get_ends_when_its_client_has_gone(control: Control, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        assert Client(left(control.process.application), version="2.100").get("/servers/detail").status == 503
    (record,) = [each for each in caplog.records if each.name.startswith("kilonova.api")]
    assert "the client has disconnected" in record.getMessage()


@pytest.mark.parametrize(
    ("path", "body"), [("/capacity", {}), ("/drain", {"hosts": ["node1"]}), ("/explain", {"flavor": "1"})]
)
def test_a_post_that_only_reads_ends_when_its_client_has_gone(
    control: Control, path: str, body: dict[str, object], caplog: pytest.LogCaptureFixture
) -> None:
    gone = Client(left(control.process.application), api="operator")
    with caplog.at_level(logging.INFO):
        assert gone.post(path, body).status == 503
    (record,) = [each for each in caplog.records if each.name.startswith("kilonova.api")]
    assert "the client has disconnected" in record.getMessage()


def test_a_write_that_is_allowed_while_read_only_is_never_given_up(hasty: Control) -> None:
    gone = Client(left(hasty.process.application), api="operator")
    for enabled in (True, False):
        assert gone.put("/read-only", {"read_only": {"enabled": enabled}}).status == 200


def left(app: WsgiApp) -> WsgiApp:
    """Give an application requests of clients who have closed their connections."""
    return lambda environ, start_response: app(environ | {CLIENT_GONE: lambda: True}, start_response)
