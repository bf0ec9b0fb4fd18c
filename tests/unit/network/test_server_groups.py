# SPDX-License-Identifier: Apache-2.0
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from kilonova.errors import Conflict, InvalidRequest, NotFound
from kilonova.network.client import Resource
from kilonova.network.server_groups import GroupChange, add_group, remove_group
from support.fake_neutron import FakeNeutron, Fault

TOKEN, SERVER = "demo-token", "7d3f2c44-0000-4000-8000-000000000001"


@pytest.fixture
def fake() -> FakeNeutron:
    fake = FakeNeutron()
    fake.user(TOKEN, "demo")
    return fake


def make(fake: FakeNeutron, name: str) -> str:
    return str(fake.create("security-groups", {"name": name}, token=TOKEN)["id"])


def groups(fake: FakeNeutron) -> list[list[str]]:
    names = {each["id"]: each["name"] for each in fake.list("security-groups")}
    return [[names[each] for each in port["security_groups"]] for port in fake.ports_of(SERVER)]


def test_a_group_is_added_to_all_ports_and_removed_from_them(fake: FakeNeutron) -> None:
    web, network = make(fake, "web"), fake.make_network()
    ports = frozenset(fake.make_port(network, device_id=SERVER) for _ in range(2))
    assert add_group(fake, TOKEN, "demo", SERVER, "web") == GroupChange("web", ports)
    assert groups(fake) == [["default", "web"]] * 2
    assert add_group(fake, TOKEN, "demo", SERVER, web) == GroupChange("web", frozenset())
    assert remove_group(fake, TOKEN, "demo", SERVER, web) == GroupChange("web", ports)
    assert groups(fake) == [["default"]] * 2


def test_a_group_that_is_unknown_ambiguous_or_not_on_the_server(fake: FakeNeutron) -> None:
    make(fake, "web")
    for change in (add_group, remove_group):
        with pytest.raises(NotFound, match="could not be found as device id on any ports"):
            change(fake, TOKEN, "demo", SERVER, "web")
    fake.make_port(fake.make_network(), device_id=SERVER)
    for change in (add_group, remove_group):
        with pytest.raises(NotFound, match="Security group mail is not found for project demo"):
            change(fake, TOKEN, "demo", SERVER, "mail")
    with pytest.raises(NotFound, match=f"Security group web not associated with the instance {SERVER}"):
        remove_group(fake, TOKEN, "demo", SERVER, "web")
    make(fake, "web")
    for change in (add_group, remove_group):
        with pytest.raises(Conflict, match="Multiple security_group matches found"):
            change(fake, TOKEN, "demo", SERVER, "web")


@pytest.mark.parametrize("port", [{"port_security_enabled": False}, {"fixed_ips": []}])
def test_a_port_that_cannot_have_groups(fake: FakeNeutron, port: Mapping[str, Any]) -> None:
    make(fake, "web")
    fake.make_port(fake.make_network(), device_id=SERVER, **port)
    with pytest.raises(InvalidRequest, match="Network requires port_security_enabled"):
        add_group(fake, TOKEN, "demo", SERVER, "web")


class BusyNeutron(FakeNeutron):
    """Neutron with another client, which changes the groups of all ports once, right after they were listed."""

    others: tuple[str, ...] = ()

    def list(self, kind: str, *, token: str | None = None, **filters: object) -> Sequence[Resource]:
        found = super().list(kind, token=token, **filters)
        if kind == "ports" and self.others:
            groups, self.others = [*self.others], ()
            for port in found:
                self.update("ports", port["id"], {"security_groups": groups})
        return found


def test_another_change_at_the_same_time_is_not_lost() -> None:
    fake = BusyNeutron()
    fake.user(TOKEN, "demo")
    web, mail = make(fake, "web"), make(fake, "mail")
    port = fake.make_port(fake.make_network(), device_id=SERVER)
    fake.others = (mail,)
    assert add_group(fake, TOKEN, "demo", SERVER, web).ports == {port}
    assert groups(fake) == [["mail", "web"]]
    fake.faults.plan("PUT ports", Fault.CONFLICT)
    with pytest.raises(Conflict):
        remove_group(fake, TOKEN, "demo", SERVER, web)
