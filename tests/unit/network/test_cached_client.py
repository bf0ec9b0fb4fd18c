# SPDX-License-Identifier: Apache-2.0
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from uuid import uuid4

import pytest

from kilonova import deadline
from kilonova.deadline import Deadline
from kilonova.errors import ClientGone, Unavailable
from kilonova.network.cached_client import CachedClient
from kilonova.network.client import NetworkClient, Resource
from kilonova.network.forwarding_client import ForwardingClient
from kilonova.network.port_owner import PortOwner
from kilonova.network.port_quota import require_quota
from kilonova.network.ports import create_ports
from kilonova.network.requests import read_request
from support.fake_neutron import FakeNeutron
from support.waiting import wait_until


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def cached(fake: FakeNeutron) -> tuple[NetworkClient, Clock]:
    clock = Clock()
    return CachedClient(fake, extensions_s=600, clock=clock), clock


def test_networks_are_asked_for_once_in_five_seconds() -> None:
    fake = FakeNeutron()
    client, clock = cached(fake)
    networks = [fake.make_network(str(n), v4=f"10.{n}.0.0/24") for n in range(3)]
    assert [each["id"] for each in client.list("networks", id=networks[:2])] == networks[:2]
    assert [each["id"] for each in client.list("networks", id=networks)] == networks
    assert client.list("networks", id=[networks[1]])[0]["name"] == "1"
    assert fake.faults.count("GET networks") == 2
    fake.update("networks", networks[0], {"name": "new"})
    clock.now = 5.1
    assert client.list("networks", id=networks)[0]["name"] == "new"
    assert fake.faults.count("GET networks") == 3


class Slow(ForwardingClient):
    """Holds lists until it is told to go on. ``fails``: number of lists that fail."""

    def __init__(self, fake: FakeNeutron, fails: int = 0) -> None:
        super().__init__(fake)
        self.fails = fails
        self.asked: list[Any] = []
        self.goes_on = threading.Event()

    def list(self, kind: str, *, token: str | None = None, **filters: object) -> Sequence[Resource]:
        self.asked.append(filters["id"])
        number = len(self.asked)
        assert self.goes_on.wait(10)
        if number <= self.fails:
            raise Unavailable("away")
        return super().list(kind, token=token, **filters)


@pytest.mark.parametrize(("fails", "most"), [(0, 2), (1, 6)])
def test_threads_that_need_a_resource_at_the_same_time_share_one_request(fails: int, most: int) -> None:
    fake = FakeNeutron()
    first, second = (fake.make_network(str(n), v4=f"10.{n}.0.0/24") for n in range(2))
    slow = Slow(fake, fails)
    client = CachedClient(slow, extensions_s=600, clock=Clock())
    with ThreadPoolExecutor(8) as pool:
        results = [pool.submit(client.list, "networks", id=[first])]
        wait_until(lambda: len(slow.asked) == 1, "the first list to be sent")
        results += [pool.submit(client.list, "networks", id=[first, second])]
        wait_until(lambda: len(slow.asked) == 2, "the other network to be requested")
        results += [pool.submit(client.list, "networks", id=[first]) for _ in range(3)]
        slow.goes_on.set()
        found = [each.result() for each in results if not each.exception()]
    assert slow.asked[:2] == [[first], [second]]
    assert len(found) == 5 - fails
    assert all(each[0]["id"] == first for each in found)
    assert len(slow.asked) <= most
    assert [each["id"] for each in client.list("networks", id=[first, second])] == [first, second]


def test_a_thread_that_waits_for_another_one_heeds_its_deadline() -> None:
    fake = FakeNeutron()
    network = fake.make_network()
    slow = Slow(fake)
    client = CachedClient(slow, extensions_s=600, clock=Clock())
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(client.list, "networks", id=[network])
        wait_until(lambda: len(slow.asked) == 1, "the first list to be sent")
        with pytest.raises(ClientGone), deadline.running(Deadline(None, lambda: True)):
            client.list("networks", id=[network])
        slow.goes_on.set()
        assert first.result()[0]["id"] == network


def test_what_one_user_sees_is_not_shown_to_another() -> None:
    fake = FakeNeutron()
    fake.user("demo-token", "demo")
    fake.user("other-token", "other")
    client, _ = cached(fake)
    network = fake.make_network()
    assert client.list("networks", id=[network])
    assert client.list("networks", id=[network], token="demo-token")
    assert client.list("networks", id=[network], token="other-token") == []
    assert client.list("networks", id=[network], fields=["id"]) == [{"id": network}]


def test_what_is_missing_or_has_no_subnets_is_asked_for_again() -> None:
    fake = FakeNeutron()
    client, _ = cached(fake)
    network = fake.make_network(v4=None)
    for _ in range(2):
        assert len(client.list("networks", id=[network, "missing"])) == 1
    assert fake.faults.count("GET networks") == 2
    subnet = fake.create("subnets", {"network_id": network, "cidr": "10.1.0.0/24"})["id"]
    assert client.list("networks", id=[network])[0]["subnets"] == [subnet]
    for _ in range(2):
        assert client.list("subnets", id=[subnet])[0]["cidr"] == "10.1.0.0/24"
    assert fake.faults.count("GET subnets") == 1


def test_names_of_security_groups_are_remembered_their_rules_are_not() -> None:
    fake = FakeNeutron()
    client, _ = cached(fake)
    group = fake.create("security-groups", {"name": "web", "project_id": "demo"})["id"]
    for _ in range(2):
        assert client.list("security-groups", id=[group], fields=("id", "name")) == [{"id": group, "name": "web"}]
    assert fake.faults.count("GET security-groups") == 1
    for _ in range(2):
        assert client.list("security-groups", id=[group])[0]["security_group_rules"]
    assert fake.faults.count("GET security-groups") == 3


def test_extensions_are_kept_for_the_time_that_an_option_says() -> None:
    fake = FakeNeutron(extensions=["dns-integration"])
    client, clock = cached(fake)
    for now, calls in ((0.0, 1), (599.0, 1), (601.0, 2)):
        clock.now = now
        assert {"alias": "dns-integration", "name": "dns-integration"} in client.list("extensions", token="any")
        assert fake.faults.count("GET extensions") == calls
    never = CachedClient(fake, extensions_s=0)
    never.list("extensions")
    never.list("extensions")
    assert fake.faults.count("GET extensions") == 4


@pytest.mark.parametrize("limits", [{}, {"port": 9}])
def test_a_server_on_a_known_network_needs_one_request_and_one_for_a_limited_quota(limits: dict[str, int]) -> None:
    fake = FakeNeutron(extensions=["dns-integration"])
    fake.user("demo-token", "demo")
    client, _ = cached(fake)
    network = fake.make_dual_stack()
    fake.set_quota("demo", **limits)

    def create() -> None:
        owner = PortOwner(instance_uuid=str(uuid4()), project_id="demo", zone="nova", hostname="web")
        asked = [{"uuid": network}]
        request = read_request(client, "demo-token", "demo", asked, ["default"], 1, external_allowed=False)
        require_quota(client, "demo-token", "demo", request, 1)
        assert create_ports(client, owner, request, "host1", repeated=False)[0].active

    create()
    fake.faults.calls.clear()
    create()
    assert fake.faults.calls == [*(["GET quotas/details"] if limits else []), "POST ports"]


def test_everything_else_is_passed_on() -> None:
    fake = FakeNeutron()
    client, _ = cached(fake)
    network = fake.make_network()
    for _ in range(2):
        port = client.create("ports", {"network_id": network})
        client.update("ports", port["id"], {"name": "n"}, revision=port["revision_number"])
        assert client.show("ports", port["id"])["name"] == "n"
        assert client.call("GET", f"/ports/{port['id']}/bindings") == {"bindings": []}
        client.delete("ports", port["id"])
        assert client.list("networks", name="private")
    assert fake.faults.counts() == {
        "POST ports": 2, "PUT ports": 2, "GET ports/": 2, "GET ports/bindings": 2, "DELETE ports": 2, "GET networks": 2
    }  # fmt: skip


def test_a_quota_is_kept_only_while_it_has_no_limit_of_ports() -> None:
    fake = FakeNeutron()
    client, clock = cached(fake)
    path = "/quotas/demo/details"
    assert client.call("GET", path)["quota"]["port"]["limit"] == -1
    fake.set_quota("demo", port=5)
    assert client.call("GET", path)["quota"]["port"]["limit"] == -1
    clock.now = 5.1
    fake.make_port(fake.make_network())
    assert client.call("GET", path)["quota"]["port"] == {"limit": 5, "used": 1, "reserved": 0}
    fake.set_quota("demo", port=7)
    assert client.call("GET", path)["quota"]["port"]["limit"] == 7
    assert client.call("GET", "/quotas/demo")["quota"]["port"] == 7
