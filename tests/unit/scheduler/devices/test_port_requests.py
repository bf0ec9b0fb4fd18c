# SPDX-License-Identifier: Apache-2.0
from dataclasses import replace

import pytest
from tests.unit.scheduler.small_cloud import host, request, table
from tests.unit.scheduler.small_devices import cell

from kilonova.errors import InvalidRequest
from kilonova.model.host_devices import HostDevices
from kilonova.model.numa import CpuPolicy, InstanceCell, InstanceNuma
from kilonova.model.pci import PF, VF, NumaPolicy, PciPool
from kilonova.model.request_spec import RequestedNetwork, RequestSpec
from kilonova.scheduler.devices.choice import needs_of
from kilonova.scheduler.devices.numa_fit import lay_out
from kilonova.scheduler.devices.pci_fit import matches, serve
from kilonova.scheduler.devices.port_requests import NetworkAffinity, port_pci_requests
from kilonova.scheduler.engine.engine import Engine
from kilonova.scheduler.filters import NUMATopologyFilter, PciPassthroughFilter
from kilonova.scheduler.resources import with_resources

DIRECT = RequestedNetwork("n", "direct", port_id="port", physical_network="public")


def nics(number: int = 0, dev_type: str = VF, total: int = 1, **tags: str) -> PciPool:
    return PciPool(number, "8086", "154c", total, dev_type=dev_type, tags=tuple(sorted(tags.items())))


def asking(*networks: RequestedNetwork, extra_specs: dict[str, str] | None = None) -> RequestSpec:
    return with_resources(replace(request(extra_specs), networks=networks))


@pytest.mark.parametrize(
    ("network", "pool", "fits"),
    [
        (DIRECT, nics(physical_network="public"), True),
        (DIRECT, nics(physical_network="other"), False),
        (DIRECT, nics(), False),
        (replace(DIRECT, physical_network=None), nics(), True),
        (replace(DIRECT, physical_network=None), nics(physical_network="public"), False),
        (DIRECT, nics(dev_type=PF, physical_network="public"), False),
        (replace(DIRECT, vnic_type="direct-physical"), nics(dev_type=PF, physical_network="public"), True),
        (replace(DIRECT, vnic_type="direct-physical"), nics(physical_network="public"), False),
        (replace(DIRECT, trusted=True), nics(physical_network="public"), False),
        (replace(DIRECT, trusted=True), nics(physical_network="public", trusted="true"), True),
        (replace(DIRECT, trusted=False), nics(physical_network="public", trusted="true"), False),
        (DIRECT, nics(physical_network="public", remote_managed="true"), False),
        (replace(DIRECT, vnic_type="remote-managed"), nics(physical_network="public", remote_managed="true"), True),
        (replace(DIRECT, vnic_type="remote-managed"), nics(physical_network="public"), False),
    ],
)
def test_devices_of_ports_are_found_by_their_tags(network: RequestedNetwork, pool: PciPool, fits: bool) -> None:
    (wanted,) = port_pci_requests([network], None)
    assert matches(pool, wanted) is fits


def test_ports_without_pci_devices_request_none() -> None:
    assert port_pci_requests([RequestedNetwork("n", port_id="p"), RequestedNetwork("n", "direct")], None) == ()


def test_the_numa_policy_is_that_of_the_port_or_of_the_flavor() -> None:
    (of_flavor,) = port_pci_requests([DIRECT], NumaPolicy.REQUIRED)
    (of_port,) = port_pci_requests([replace(DIRECT, numa_policy="preferred")], NumaPolicy.REQUIRED)
    assert (of_flavor.numa_policy, of_port.numa_policy) == (NumaPolicy.REQUIRED, NumaPolicy.PREFERRED)
    with pytest.raises(InvalidRequest, match="near"):
        port_pci_requests([replace(DIRECT, numa_policy="near")], None)


def test_each_port_knows_the_pool_of_its_device() -> None:
    pools = (nics(0, physical_network="public", total=2), nics(1, physical_network="other"))
    wanted = port_pci_requests([DIRECT, replace(DIRECT, port_id="other", physical_network="other")], None)
    served = serve(pools, wanted)
    assert served is not None
    assert (served.devices, served.ports) == (((0, 1), (1, 1)), (("port", 0), ("other", 1)))
    share = needs_of(asking(DIRECT), {}).of(HostDevices(pools=pools), None)  # type: ignore[arg-type]
    assert share is not None
    assert share.ports == (("port", 0),)


def test_the_refusal_names_the_port_and_its_network() -> None:
    hosts = table(host("a", devices=HostDevices(pools=(nics(physical_network="public"),))), host("b"))
    decision = Engine(filters=(PciPassthroughFilter(),)).decide(hosts, asking(DIRECT), limit=9)
    assert [each.host for each in decision.ranked] == ["a"]
    (step,) = (step for step in decision.steps if step.removed)
    assert "port port (physical_network=public, remote_managed=false)" in step.reason


def test_cells_of_a_server_are_near_the_cards_of_its_networks() -> None:
    near = HostDevices((cell(0), replace(cell(1), physnets=frozenset({"public"}), tunneled=True)))
    wanted = InstanceNuma((InstanceCell(0, frozenset(), frozenset({0, 1}), 512),), CpuPolicy.DEDICATED)
    for affinity, expected in (
        (NetworkAffinity(), {0, 1}),
        (NetworkAffinity(frozenset({"other"})), {0, 1}),
        (NetworkAffinity(frozenset({"public"})), {1}),
        (NetworkAffinity(tunneled=True), {1}),
    ):
        share = lay_out(near, wanted, (), None, affinity)
        assert share is not None
        assert {part.cell for part in share.cells} <= expected
    full = HostDevices((near.cells[0], replace(near.cells[1], pinned=near.cells[1].pcpuset)))
    assert lay_out(full, wanted, (), None, NetworkAffinity(frozenset({"public"}))) is None
    assert lay_out(full, wanted, (), None, NetworkAffinity(frozenset({"other"}))) is not None
    apart = HostDevices((replace(cell(0), physnets=frozenset({"a"})), replace(cell(1), physnets=frozenset({"b"}))))
    assert lay_out(apart, wanted, (), None, NetworkAffinity(frozenset({"a", "b"}))) is None


def test_the_refusal_names_the_network_whose_card_is_far() -> None:
    cells = cell(0), replace(cell(1), physnets=frozenset({"public"}), pinned=cell(1).pcpuset)
    hosts = table(host("a", devices=HostDevices(cells)), host("b", devices=HostDevices((cell(0),))))
    spec = asking(RequestedNetwork("n", physical_network="public"), extra_specs={"hw:cpu_policy": "dedicated"})
    decision = Engine(filters=(NUMATopologyFilter(),), pcpu_fallback=True).decide(hosts, spec, limit=9)
    assert [each.host for each in decision.ranked] == ["b"]
    (step,) = (step for step in decision.steps if step.removed)
    assert step.reason.endswith("near the cards of physical network public")
