# SPDX-License-Identifier: Apache-2.0
import pytest

from kilonova.model.ability import Ability
from kilonova.model.allocation_ratios import AllocationRatios
from kilonova.model.host import Capabilities
from kilonova.scenario.model import (
    ScenarioServer,
    SimulatedCell,
    SimulatedHost,
    SimulatedPool,
    projects_named,
)

RATIOS = AllocationRatios(cpu=4.0, memory=1.5, disk=1.0, reserved_memory_mib=512)


def test_pci_devices_fill_slot_after_slot_and_bus_after_bus() -> None:
    addresses = SimulatedPool("8086", "1572", count=257).reported(3).addresses
    assert (addresses[0], addresses[8], addresses[255], addresses[256]) == (
        "0003:00:00.0", "0003:00:01.0", "0003:00:1f.7", "0003:01:00.0",
    )  # fmt: skip
    assert len(set(addresses)) == 257


def test_cells_decide_the_number_of_cpus_and_reserved_memory_never_exceeds_the_host() -> None:
    plain = SimulatedHost("a", vcpus=8, memory_mib=256, disk_gib=0)
    found = {each.resource_class: each for each in plain.reported_inventories(RATIOS)}
    assert set(found) == {"VCPU", "MEMORY_MB"}
    assert (found["VCPU"].total, found["MEMORY_MB"].reserved) == (8, 256)
    cells = (SimulatedCell(128, cpus="0-1", dedicated="2-3"), SimulatedCell(128, dedicated="4"))
    found = {each.resource_class: each for each in SimulatedHost("a", vcpus=8, numa=cells).reported_inventories(RATIOS)}
    assert (found["VCPU"].total, found["PCPU"].total, found["PCPU"].allocation_ratio) == (2, 3, 1.0)


def test_traits_follow_from_models_and_may_be_denied() -> None:
    host = SimulatedHost("a", models={"hw_vif_model": ("virtio",)}, traits=("CUSTOM_SSD",))
    traits = host.reported_traits
    assert {"COMPUTE_NET_VIF_MODEL_VIRTIO", "CUSTOM_SSD", "HW_ARCH_X86_64"} <= set(traits)
    assert "CUSTOM_SSD" not in SimulatedHost("a", traits=("CUSTOM_SSD",), lacks=("CUSTOM_SSD",)).reported_traits


def test_a_refusal_of_an_image_names_no_host() -> None:
    host = SimulatedHost("secret-host", models={"hw_vif_model": ("virtio",)})
    assert host.why_not({"hw_vif_model": "virtio", "hw_disk_bus": "ide"}) is None
    assert host.why_not({"hw_vif_model": "e1000"}) == "The hypervisor does not support hw_vif_model=e1000."


def test_abilities_that_are_not_named_are_missing_only_if_some_are_named() -> None:
    assert SimulatedHost("a").missing_abilities == frozenset()
    pausing = SimulatedHost("a", capabilities=Capabilities(abilities=frozenset({Ability.PAUSE})))
    assert pausing.missing_abilities == frozenset(Ability) - {Ability.PAUSE}


@pytest.mark.parametrize(
    ("zone", "target"),
    [
        (None, (None, None, None)),
        ("east", ("east", None, None)),
        (":node1", (None, "node1", None)),
        ("east:node1:n1", ("east", "node1", "n1")),
        ("east::n1", ("east", None, "n1")),
    ],
)
def test_a_zone_may_force_a_host_and_a_node(zone: str | None, target: tuple[str | None, ...]) -> None:
    assert ScenarioServer("s", "f", "i", zone=zone).target == target


def test_only_whole_project_references_count() -> None:
    assert projects_named("a ${project:demo},${project:admin} ${other:x} ${project:a${b}}") == ("demo", "admin")
