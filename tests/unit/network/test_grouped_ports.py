# SPDX-License-Identifier: Apache-2.0
"""Ports of several servers by one request: which are grouped, and what each server learns."""

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest

from kilonova.errors import KilonovaError
from kilonova.network.grouped_ports import GroupedPorts
from support.fake_neutron import FakeNeutron, Fault
from support.waiting import wait_until

RUNNING = 2


class Bench:
    """A client whose first requests are held until ``release``, so that later ports wait."""

    def __init__(self) -> None:
        self.neutron = FakeNeutron()
        self.network = self.neutron.make_network(v4="10.1.0.0/16")
        self.client = GroupedPorts(self.neutron)
        self.held = 0
        self._open = threading.Event()
        self._threads = ThreadPoolExecutor(40)

    def port(self, device: str, **values: Any) -> "Future[Any]":
        asked = {"network_id": self.network, "project_id": "demo", "device_id": device, **values}
        return self._threads.submit(self.client.create, "ports", asked)

    def hold(self) -> Sequence["Future[Any]"]:
        """Start as many requests as may run at once, and hold them."""
        self.neutron.before_call = self._wait
        first = [self.port(f"held-{number}") for number in range(RUNNING)]
        wait_until(lambda: self.held == RUNNING, lambda: "requests to run")
        return first

    def release(self, waiting: int) -> None:
        """Let the requests go on as soon as some more ports wait."""
        wait_until(lambda: len(self.client._waiting) == waiting, lambda: "ports to wait")
        self._open.set()

    def posts(self) -> int:
        return self.neutron.faults.count("POST ports")

    def _wait(self, _call: str) -> None:
        self.held += 1
        self._open.wait(20)


def outcomes(asked: Sequence["Future[Any]"]) -> list[str]:
    """Return the device of each port, or the name of its error."""

    def outcome(port: Callable[[float], Any]) -> str:
        try:
            return str(port(20)["device_id"])
        except KilonovaError as error:
            return type(error).__name__

    return [outcome(each.result) for each in asked]


def test_ports_that_wait_are_created_by_one_request() -> None:
    bench = Bench()
    first = bench.hold()
    asked = [bench.port(f"server-{number}") for number in range(7)]
    bench.release(7)
    assert outcomes([*first, *asked]) == ["held-0", "held-1", *(f"server-{number}" for number in range(7))]
    assert bench.posts() == RUNNING + 1
    assert len({port["id"] for port in (each.result() for each in asked)}) == 7


def test_a_big_group_is_divided_and_a_server_is_in_it_once() -> None:
    bench = Bench()
    first = bench.hold()
    asked = [bench.port(f"server-{number % 12}") for number in range(24)]
    bench.release(24)
    assert sorted(outcomes(asked)) == sorted(f"server-{number % 12}" for number in range(24))
    assert len(outcomes(first)) == RUNNING
    assert RUNNING + 3 <= bench.posts() <= RUNNING + 6
    assert len(bench.neutron.ports_of("server-3")) == 2


def test_a_refused_group_is_created_one_by_one_and_each_server_gets_its_own_error() -> None:
    bench = Bench()
    taken = bench.neutron.port(bench.neutron.make_port(bench.network))["fixed_ips"][0]["ip_address"]
    first = bench.hold()
    asked = [bench.port("one"), bench.port("two", fixed_ips=[{"ip_address": taken}]), bench.port("three")]
    bench.release(3)
    assert outcomes(asked) == ["one", "Conflict", "three"]
    assert outcomes(first) == ["held-0", "held-1"]
    assert [len(bench.neutron.ports_of(device)) for device in ("one", "two", "three")] == [1, 0, 1]


def test_a_quota_is_used_up_to_its_end() -> None:
    bench = Bench()
    bench.neutron.set_quota("demo", port=RUNNING + 2)
    first = bench.hold()
    asked = [bench.port(f"server-{number}") for number in range(4)]
    bench.release(4)
    assert outcomes([*first, *asked]).count("OverQuota") == 2


@pytest.mark.parametrize("fault", [Fault.LOST, Fault.LATE, Fault.ERROR])
def test_an_unknown_outcome_is_that_of_all_servers(fault: Fault) -> None:
    bench = Bench()
    first = bench.hold()
    asked = [bench.port("one"), bench.port("two")]
    bench.neutron.faults.plan("POST ports", fault, 3)
    bench.release(2)
    assert outcomes([*first, *asked]) == ["Unavailable"] * 4
    assert bench.posts() == RUNNING + 1


def test_a_port_that_the_response_lacks_is_the_error_of_its_server_only() -> None:
    bench = Bench()
    whole = bench.neutron.call

    def lacking(method: str, path: str, body: Any = None, *, token: str | None = None) -> Any:
        answer = whole(method, path, body, token=token)
        return {"ports": [port for port in answer["ports"] if port["device_id"] != "two"]}

    bench.neutron.call = lacking  # type: ignore[method-assign]
    first = bench.hold()
    asked = [bench.port("one"), bench.port("two"), bench.port("three")]
    bench.release(3)
    assert outcomes([*first, *asked]) == ["held-0", "held-1", "one", "Unavailable", "three"]


def test_other_requests_are_passed_on() -> None:
    neutron = FakeNeutron()
    neutron.user("token", "demo")
    network = neutron.make_network()
    client = GroupedPorts(neutron)
    port = client.create("ports", {"network_id": network}, token="token")
    assert client.update("ports", port["id"], {"name": "new"})["name"] == "new"
    assert client.show("ports", port["id"])["name"] == "new"
    assert client.call("GET", "/quotas/demo")["quota"]["port"] == -1
    client.delete("ports", port["id"])
    assert client.list("ports") == []
