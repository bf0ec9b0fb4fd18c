# SPDX-License-Identifier: Apache-2.0
"""Where a request comes from reaches the scheduler: the peer, or who a trusted proxy says it is."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from kilonova.db import instances, request_specs
from kilonova.model.request_spec import RequestSpec
from support.control import Control, NewControl

EXAMPLES = Path(__file__).parents[2] / "examples"
HOSTS = """
images: [{name: cirros}]
hosts: [{name: doc1}, {name: ops1}, {name: dev1}]
"""
DRIVER = f"[scheduler]\nplugin_path = {EXAMPLES}\ndriver = IPScheduler\n"
BEHIND_A_PROXY = "[api]\nuse_forwarded_for = true\n"
Start = Callable[[str], Control]


@pytest.fixture
def start(new_control: NewControl) -> Start:
    """Starts a control process with more settings."""
    return lambda more: new_control(scenario=HOSTS, more=more)


def asked_for(control: Control, forwarded: str | None, *, admin: bool = False) -> tuple[str, RequestSpec]:
    """Boot a server through a proxy; return its host and the request that is stored."""
    client = control.admin if admin else control.member
    if forwarded is not None:
        client = replace(client, headers={"X-Forwarded-For": forwarded})
    shown = control.boot(client)
    with control.process.database.read() as connection:
        server = instances.get(connection, shown["id"])
        spec = request_specs.get_many(connection, [server])[server.uuid].spec
    return shown["OS-EXT-SRV-ATTR:host"], spec


def test_a_driver_places_by_the_address_that_the_proxy_names(start: Start) -> None:
    control = start(DRIVER + BEHIND_A_PROXY)
    expected = {
        "10.1.2.3": ("doc1", "10.1.2.3"),
        "10.2.0.9, 10.1.0.1": ("ops1", "10.2.0.9"),
        "192.0.2.1": ("dev1", "192.0.2.1"),
        "2001:DB8::1": ("dev1", "2001:db8::1"),
        "10.1.nonsense": ("dev1", "127.0.0.1"),
        "": ("dev1", "127.0.0.1"),
    }
    found = {}
    for forwarded in expected:
        host, spec = asked_for(control, forwarded)
        found[forwarded] = host, spec.remote_address
    assert found == expected


def test_nobody_is_believed_unless_the_operator_says_so(start: Start) -> None:
    host, spec = asked_for(start(DRIVER), "10.1.2.3")
    assert (host, spec.remote_address) == ("dev1", "127.0.0.1")


def test_the_request_says_whether_an_administrator_asked(start: Start) -> None:
    control = start("")
    assert asked_for(control, None)[1].is_admin is False
    assert asked_for(control, None, admin=True)[1].is_admin is True


def test_the_fault_of_a_server_has_the_words_of_the_driver(start: Start) -> None:
    control = start(DRIVER)
    services = control.admin.get("/os-services?binary=nova-compute").body["services"]
    for service in services:
        assert control.admin.put(f"/os-services/{service['id']}", {"status": "disabled"}).status == 200
    shown = control.boot()
    assert shown["status"] == "ERROR"
    assert shown["fault"]["message"] == "No valid host was found. Is the appropriate service running?"
