# SPDX-License-Identifier: Apache-2.0
"""The operator API about stray guests, in front of a whole control process with simulated hosts."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from kilonova.compute.agent import Agent
from kilonova.compute.report_timer import ReportTimer
from kilonova.identifiers import new_uuid
from kilonova.model.instance import GuestSpec
from support.api_client import Answer
from support.control import Control, NewControl
from support.waiting import wait_until

GUEST = GuestSpec(uuid="", name="vm", hostname="vm", vcpus=1, memory_mib=512, root_gib=1)


@pytest.fixture(scope="module")
def control(new_shared_control: NewControl) -> Control:
    return new_shared_control()


def agents(control: Control) -> dict[str, Agent]:
    return {agent.host: agent for agent in control.process.core.agents}


def strays(control: Control, query: str = "") -> list[dict[str, Any]]:
    listed: list[dict[str, Any]] = control.operator.get(f"/strays{query}").body["strays"]
    return listed


def remove(control: Control, host: str, guest: str) -> Answer:
    return control.operator.post("/strays/remove", {"remove": {"host": host, "guest": guest}})


def report_guests(control: Control) -> None:
    ReportTimer(control.process.core.bus, control.process.core.agents, 3600).report()


@pytest.fixture
def lost(control: Control) -> Iterator[list[str]]:
    """Three guests on the first host and one on the second that no server owns."""
    uuids = [new_uuid() for _ in range(4)]
    for uuid, host in zip(uuids, ("node1", "node1", "node1", "node2"), strict=True):
        agents(control)[host].driver.spawn(replace(GUEST, uuid=uuid))
    report_guests(control)
    wait_until(lambda: len(strays(control)) == 4, "the guests are listed")
    yield uuids
    for agent in agents(control).values():
        for uuid in uuids:
            agent.driver.destroy(uuid)
    report_guests(control)
    wait_until(lambda: strays(control) == [], "nothing is listed any more")


def test_strays_are_listed_page_by_page_with_what_may_be_done(control: Control, lost: list[str]) -> None:
    shown = strays(control)
    assert {(each["host"], each["guest"]) for each in shown} == {
        *(("node1", uuid) for uuid in lost[:3]),
        ("node2", lost[3]),
    }
    assert {(each["reason"], each["power_state"], each["recorded_host"]) for each in shown} == {
        ("unknown", "running", None)
    }
    assert all("no server with this id" in each["what"] and "backup" in each["remedy"] for each in shown)
    page = control.operator.get("/strays?limit=3").body
    assert page["strays"] == shown[:3]
    assert page["strays_links"][0]["href"].endswith(f"marker={shown[2]['id']}")
    assert strays(control, f"?marker={shown[2]['id']}") == shown[3:]
    assert [each["guest"] for each in strays(control, "?host=node2")] == [lost[3]]


def test_a_stray_is_removed_when_an_operator_says_so(control: Control, lost: list[str]) -> None:
    answer = remove(control, "node1", lost[0])
    assert (answer.status, answer.body["removal"]["host_was_asked"]) == (202, True)
    wait_until(lambda: len(strays(control)) == 3, "it is no longer listed")
    assert lost[0] not in agents(control)["node1"].driver.list_guests()
    assert set(lost[1:3]) <= set(agents(control)["node1"].driver.list_guests())


def test_what_may_not_be_removed(control: Control, lost: list[str]) -> None:
    server = control.boot()
    refused = remove(control, server["OS-EXT-SRV-ATTR:host"], server["id"])
    assert (refused.status, "delete the server instead" in refused.fault[1]) == (409, True)
    driver: Any = agents(control)["node1"].driver
    guests = driver.hypervisor.guests
    guests.put(lost[1], guest=replace(guests.guest(lost[1]), ordered_at=None))
    report_guests(control)
    wait_until(lambda: {each["reason"] for each in strays(control)} == {"unknown", "unmarked"}, "the mark is missed")
    refused = remove(control, "node1", lost[1])
    assert (refused.status, "does not bear the mark" in refused.fault[1]) == (409, True)
    assert remove(control, "node2", lost[0]).status == 404
    assert remove(control, "nowhere", lost[0]).status == 404
    assert set(lost[:3]) <= set(driver.list_guests())
    control.admin.delete(f"/servers/{server['id']}")
    control.settle()


@pytest.mark.parametrize(
    "query", ["limit=x", "marker=x", "marker=999999999", "host=", f"host={'x' * 256}", "hots=node1"]
)
def test_a_query_that_makes_no_sense_names_the_parameter(control: Control, query: str) -> None:
    refused = control.operator.get(f"/strays?{query}")
    assert refused.status == 400
    assert query.split("=", maxsplit=1)[0] in refused.fault[1]


@pytest.mark.parametrize("body", [None, {}, {"remove": {"host": "node1"}}, {"remove": {"host": 1, "guest": "a"}}])
def test_a_body_that_makes_no_sense_is_refused(control: Control, body: Any) -> None:
    assert control.operator.post("/strays/remove", body).status == 400


def test_strays_are_counted_for_prometheus(control: Control, lost: list[str]) -> None:
    def counted() -> bool:
        text = control.process.core.metrics.text()[0].decode()
        return f'kilonova_stray_guests{{reason="unknown"}} {float(len(lost))}' in text

    wait_until(counted, "they are counted", at_most_s=10)
