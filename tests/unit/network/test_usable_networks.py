# SPDX-License-Identifier: Apache-2.0
import pytest

from kilonova.errors import Conflict, Forbidden, Unavailable
from kilonova.network.usable_networks import UsableNetworks
from support.fake_neutron import FakeNeutron, Fault


@pytest.fixture
def fake() -> FakeNeutron:
    fake = FakeNeutron()
    fake.user("demo-token", "demo")
    fake.user("admin-token", "admin", is_admin=True)
    return fake


def test_an_administrator_uses_networks_of_the_project_not_of_the_whole_cloud(fake: FakeNeutron) -> None:
    fake.make_network("foreign", "other")
    own = fake.make_network("own", "admin")
    only = UsableNetworks(fake, "admin-token", "admin", external_allowed=True).only_one()
    assert only is not None
    assert only["id"] == own


def test_an_external_network_that_is_the_only_one_is_refused(fake: FakeNeutron) -> None:
    fake.make_network("public", "demo", **{"router:external": True})
    with pytest.raises(Forbidden):
        UsableNetworks(fake, "demo-token", "demo", external_allowed=False).only_one()
    assert UsableNetworks(fake, "demo-token", "demo", external_allowed=True).only_one()


def test_a_network_that_is_down_is_not_chosen_automatically(fake: FakeNeutron) -> None:
    fake.make_network("half", admin_state_up=False)
    up = fake.make_network("up", v4="10.2.0.0/24")
    usable = UsableNetworks(fake, "demo-token", "demo", external_allowed=False)
    assert usable.automatic() == up
    with pytest.raises(Conflict):
        usable.only_one()


def test_an_unreachable_service_is_not_a_missing_topology(fake: FakeNeutron) -> None:
    fake.make_external()
    fake.faults.plan("GET auto-allocated-topology", Fault.ERROR)
    with pytest.raises(Unavailable):
        UsableNetworks(fake, "demo-token", "demo", external_allowed=False).automatic()
