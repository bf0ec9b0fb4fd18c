# SPDX-License-Identifier: Apache-2.0
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import pytest

from api.compute_cloud import Cloud, start_cloud
from support.fake_neutron import FakeNeutron
from support.interfaces import interface
from support.plugged import cached, plug


class Meanwhile(FakeNeutron):
    """A network service during whose next list of ports for Kilonova something else happens."""

    happens: Callable[[], None] | None = None

    def list(self, kind: str, *, token: str | None = None, **filters: object) -> Sequence[Mapping[str, Any]]:
        if kind == "ports" and token is None and self.happens is not None:
            happens, self.happens = self.happens, None
            happens()
        return super().list(kind, token=token, **filters)


@pytest.fixture
def neutron() -> Meanwhile:
    started = Meanwhile()
    started.user("alice:wonder", "wonder")
    return started


@pytest.fixture
def networked(database_url: str, neutron: Meanwhile) -> Iterator[Cloud]:
    started = start_cloud(database_url, network=neutron)
    yield started
    started.database.close()


def add(cloud: Cloud, server: str, network: str) -> int:
    return cloud.member.post(f"/servers/{server}/action", {"addFixedIp": {"networkId": network}}).status


def test_interfaces_attached_or_detached_meanwhile_are_kept_so(networked: Cloud, neutron: Meanwhile) -> None:
    network, server = neutron.make_network("own", "wonder"), networked.add_server(None)
    first, second = plug(networked, neutron, server, network, network)
    attached = interface("other", "10.9.0.1", port_id="attached")
    neutron.happens = lambda: networked.set_interfaces(server, (first, attached))

    assert add(networked, server, network) == 202

    present = cached(networked, server)
    assert [vif.port_id for vif in present] == [first.port_id, "attached"]
    assert len(list(present[0].addresses)) == 2
    assert present[1] == attached
    assert second.port_id not in {vif.port_id for vif in present}


def test_a_server_deleted_meanwhile_is_no_error(networked: Cloud, neutron: Meanwhile) -> None:
    network, server = neutron.make_network("own", "wonder"), networked.add_server(None)
    plug(networked, neutron, server, network)
    neutron.happens = lambda: networked.remove_server(server)
    assert add(networked, server, network) == 202
