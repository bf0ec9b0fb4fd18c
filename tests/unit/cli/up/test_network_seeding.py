# SPDX-License-Identifier: Apache-2.0
from ipaddress import ip_network
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from kilonova.bundled_services.settings import Account
from kilonova.cli.up.network_seeding import FirstNetworks
from kilonova.errors import Unavailable

SERVICE = Account("service", "x", "service", ("service",))


class Neutron:
    """Stores what is created. ``room``: number of requests that change something, after which all fail."""

    def __init__(self, room: int = 99) -> None:
        self.kinds: dict[str, list[dict[str, Any]]] = {}
        self.room = room

    def request(self, url: str, method: str, **arguments: Any) -> Any:
        where = urlsplit(url)
        kind, *rest = where.path.removeprefix("/v2.0/").split("/")
        if method == "GET":
            return self._answer(200, **{kind: self._found(kind, parse_qs(where.query))})
        self.room -= 1
        if self.room < 0:
            return self._answer(500)
        if method == "PUT":
            self._store("ports", {"device_id": rest[0], "fixed_ips": f"subnet_id={arguments['json']['subnet_id']}"})
            return self._answer(200)
        ((one, values),) = arguments["json"].items()
        return self._answer(201, **{one: self._store(kind, values)})

    def _found(self, kind: str, query: dict[str, list[str]]) -> list[dict[str, Any]]:
        stored = self.kinds.get(kind, [])
        return [each for each in stored if all(each[name] == value for name, (value,) in query.items())]

    def _store(self, kind: str, values: dict[str, Any]) -> dict[str, Any]:
        stored = self.kinds.setdefault(kind, [])
        stored.append({"id": f"{kind}{len(stored)}", **values})
        return stored[-1]

    def _answer(self, status: int, **content: Any) -> Any:
        return SimpleNamespace(status_code=status, text="why", json=lambda: content)


def create(neutron: Neutron, mark: Path) -> None:
    networks = FirstNetworks(mark, SERVICE, "http://k", "http://n")
    networks._session = neutron  # type: ignore[assignment]
    networks.create(lambda: None)


def test_servers_get_addresses_of_both_versions_and_a_way_out(tmp_path: Path) -> None:
    neutron = Neutron()
    create(neutron, tmp_path / "mark")
    assert {each["name"]: each.get("shared", False) for each in neutron.kinds["networks"]} == {
        "private": True,
        "public": False,
    }
    pools = {each["id"]: ip_network(each["prefixes"][0]) for each in neutron.kinds["subnetpools"]}
    inside = [each for each in neutron.kinds["subnets"] if "subnetpool_id" in each]
    assert {each["ip_version"]: pools[each["subnetpool_id"]].is_private for each in inside} == {4: True, 6: True}
    assert len(neutron.kinds["ports"]) == 2
    assert (tmp_path / "mark").exists()


@pytest.mark.parametrize("room", range(10))
def test_a_creation_that_was_interrupted_is_completed(tmp_path: Path, room: int) -> None:
    neutron, mark = Neutron(room), tmp_path / "mark"
    with pytest.raises(Unavailable):
        create(neutron, mark)
    assert not mark.exists()
    neutron.room = 99
    create(neutron, mark)
    assert {kind: len(stored) for kind, stored in neutron.kinds.items()} == {
        "subnetpools": 2,
        "networks": 2,
        "subnets": 3,
        "routers": 1,
        "ports": 2,
    }
