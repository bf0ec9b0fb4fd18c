# SPDX-License-Identifier: Apache-2.0
"""Zones, hosts and hypervisors of a request are looked up without reading the tables of all hosts."""

import threading
from typing import Any

import pytest
from sqlalchemy import event

from support.control import Control


@pytest.fixture
def statements(control: Control) -> list[str]:
    """What requests read from now on; they are answered by this thread."""
    found: list[str] = []
    mine = threading.get_ident()

    def note(*given: Any) -> None:
        if threading.get_ident() == mine:
            found.append(given[2])

    event.listen(control.process.database.engine, "before_cursor_execute", note)
    return found


def test_zones_and_hosts_of_requests_are_looked_up(control: Control, statements: list[str]) -> None:
    asked = {"availability_zone": "nova"}, {"availability_zone": "nova:NODE1:node1"}, {"host": "Node2"}
    for where in asked:
        assert control.ask(control.admin, **where).status == 202
    for where in ({"availability_zone": "none"}, {"availability_zone": "nova:node1:node2"}, {"host": "node3"}):
        assert control.ask(control.admin, **where).status == 400
    assert control.member.get("/os-availability-zone").status == 200
    tables = [text for text in statements if any(f"FROM {name}" in text for name in ("services", "aggregate_hosts"))]
    assert tables == []
    assert [text for text in statements if "FROM compute_nodes" in text and "WHERE" not in text] == []


@pytest.mark.parametrize("path", ["/os-hypervisors/{0}", "/os-hypervisors?limit=1", "/os-hypervisors/detail?limit=1"])
def test_of_hypervisors_that_are_not_shown_only_their_names_are_read(
    control: Control, statements: list[str], path: str
) -> None:
    (first, *_) = control.admin.get("/os-hypervisors").body["hypervisors"]
    statements.clear()
    assert control.admin.get(path.format(first["id"])).status == 200
    whole = [text for text in statements if "capabilities" in text or "FROM services" in text]
    assert len(whole) == 2
    assert all(" IN (" in text for text in whole)


def test_what_is_changed_is_known_at_once(control: Control) -> None:
    def zones() -> dict[str, bool]:
        listed = control.member.get("/os-availability-zone").body["availabilityZoneInfo"]
        return {each["zoneName"]: each["zoneState"]["available"] for each in listed}

    assert zones() == {"nova": True}
    assert control.ask(availability_zone="z").status == 400
    made = control.admin.post("/os-aggregates", {"aggregate": {"name": "a", "availability_zone": "z"}})
    actions = f"/os-aggregates/{made.body['aggregate']['id']}/action"
    assert control.admin.post(actions, {"add_host": {"host": "node1"}}).status == 200
    assert zones() == {"nova": True, "z": True}
    assert control.ask(availability_zone="z").status == 202
    services = {each["host"]: each["id"] for each in control.admin.get("/os-services").body["services"]}
    assert control.admin.put(f"/os-services/{services['node1']}", {"status": "disabled"}).status == 200
    assert zones() == {"nova": True, "z": False}
    assert control.ask(availability_zone="z").status == 400
    assert control.admin.put(f"/os-services/{services['node2']}", {"status": "disabled"}).status == 200
    assert zones() == {"nova": False, "z": False}
    assert control.ask(control.admin, host="node2").status == 202, "a host may be asked for while it is disabled"
    control.settle()
