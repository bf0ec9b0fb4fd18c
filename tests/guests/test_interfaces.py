# SPDX-License-Identifier: Apache-2.0
"""Interfaces of real guests on a bridge: present from the start, attached and detached, also after a crash."""

import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import libvirt
import pytest

from kilonova.compute.virt.abilities import Rescue
from kilonova.compute.virt.base import AgentStopsError
from kilonova.errors import DriverError, GuestMissing, UnsupportedGuest
from kilonova.identifiers import new_uuid
from kilonova.model.instance import GuestSpec, PowerState
from kilonova.model.network_info import Vif, VifNetwork
from support.driver_places import later
from support.libvirt_node import BridgedNode
from support.libvirt_place import LibvirtPlace
from support.waiting import wait_until

LIVE, CONFIG = 0, libvirt.VIR_DOMAIN_XML_INACTIVE


def vif(number: int, **fields: Any) -> Vif:
    port_id = f"{number:08x}-1111-4222-8333-444455556666"
    network = VifNetwork(id=new_uuid(), label="net", mtu=1442, bridge="br-test")
    known = {"port_id": port_id, "mac": f"fa:16:3e:00:00:{number:02x}", "network": network, "vif_type": "bridge"}
    return Vif(**{**known, **fields})


@pytest.fixture
def place(bridged_node: BridgedNode, tmp_path: Path) -> Iterator[LibvirtPlace]:
    made = LibvirtPlace(bridged_node.node, tmp_path, device_detach_attempts=2, device_detach_timeout_s=1)
    yield made
    made.clear()


def boots(place: LibvirtPlace, guest: GuestSpec) -> int:
    return int(place.driver.console_output(guest.uuid, None).count(": boot "))


def booted(place: LibvirtPlace, guest: GuestSpec) -> None:
    wait_until(lambda: boots(place, guest) > 0, "the guest to boot")


def slots(node: BridgedNode, guest: GuestSpec, which: int) -> dict[str, str]:
    """Return MAC address → PCI slot of the interfaces of one configuration of a guest."""
    connection = libvirt.open(node.node.uri)
    root = ET.fromstring(connection.lookupByUUIDString(guest.uuid).XMLDesc(which))
    connection.close()
    found = {}
    for interface in root.iterfind("devices/interface"):
        mac, place = interface.find("mac"), interface.find("address")
        assert mac is not None
        assert place is not None
        found[mac.get("address", "")] = place.get("slot", "")
    return found


def models(node: BridgedNode, guest: GuestSpec) -> list[str | None]:
    connection = libvirt.open(node.node.uri)
    root = ET.fromstring(connection.lookupByUUIDString(guest.uuid).XMLDesc())
    connection.close()
    return [model.get("type") for model in root.iterfind("devices/interface/model")]


def test_a_guest_starts_with_its_interfaces(place: LibvirtPlace, bridged_node: BridgedNode) -> None:
    guest = place.made(vifs=(vif(1), vif(2)))
    assert bridged_node.members() == {vif(1).device_name, vif(2).device_name}
    assert len(place.driver.diagnostics(guest.uuid).nics) == 2
    place.driver.stop(guest.uuid)
    assert bridged_node.members() == set()
    place.driver.start(guest.uuid)
    assert bridged_node.members() == {vif(1).device_name, vif(2).device_name}


def test_a_guest_that_waits_for_its_ports_is_plugged_and_paused(place: LibvirtPlace, bridged_node: BridgedNode) -> None:
    guest = place.guest(vifs=(vif(1),), starts_paused=True)
    for _ in range(2):
        place.driver.spawn(guest)
        assert place.state(guest) is PowerState.PAUSED
        assert bridged_node.members() == {vif(1).device_name}
        assert place.driver.changed_guests() == {}
        place.agent_dies()
    place.driver.unpause(guest.uuid)
    booted(place, guest)
    place.driver.spawn(guest)
    assert place.state(guest) is PowerState.RUNNING
    anew = replace(guest, ordered_at=later(guest))
    place.driver.rebuild(anew, power_on=True)
    assert place.state(guest) is PowerState.PAUSED
    place.driver.unpause(guest.uuid)
    place.driver.stop(guest.uuid)
    place.driver.move_away(guest.uuid, "")
    place.driver.finish_move(replace(anew, memory_mib=48), "node1", power_on=True)
    assert place.state(guest) is PowerState.PAUSED


def test_a_port_that_is_not_bound_is_named_and_nothing_is_left(place: LibvirtPlace) -> None:
    guest = place.guest(vifs=(vif(1, vif_type="binding_failed"),))
    with pytest.raises(UnsupportedGuest, match=f"Binding failed for port {vif(1).port_id}"):
        place.driver.spawn(guest)
    assert place.left_behind(guest.uuid) == []


@pytest.mark.parametrize("is_off", [False, True])
def test_an_interface_is_attached_and_detached(place: LibvirtPlace, bridged_node: BridgedNode, *, is_off: bool) -> None:
    guest, added = place.made(vifs=(vif(1),), image_properties={"hw_vif_model": "e1000"}), vif(2)
    booted(place, guest)
    if is_off:
        place.driver.stop(guest.uuid)
    for _ in range(2):
        place.driver.attach_interface(guest.uuid, added)
        place.agent_dies()
        assert (added.device_name in bridged_node.members()) is not is_off
        assert slots(bridged_node, guest, LIVE) == slots(bridged_node, guest, CONFIG)
        assert added.mac in slots(bridged_node, guest, CONFIG)
        assert models(bridged_node, guest) == ["e1000", "e1000"]
    place.driver.hard_reboot(guest.uuid, None)
    assert bridged_node.members() == {vif(1).device_name, added.device_name}
    place.driver.stop(guest.uuid)
    if not is_off:
        before = boots(place, guest)
        place.driver.start(guest.uuid)
        wait_until(lambda: boots(place, guest) > before, "the guest to boot")
    for _ in range(2):
        place.driver.detach_interface(guest.uuid, added)
        place.agent_dies()
        assert added.device_name not in bridged_node.members()
        assert added.mac not in slots(bridged_node, guest, CONFIG)


def test_an_interface_has_its_place_after_a_rescue(place: LibvirtPlace, bridged_node: BridgedNode) -> None:
    guest = place.made(vifs=(vif(1), vif(2)))
    booted(place, guest)
    place.driver.attach_interface(guest.uuid, vif(3))
    place.driver.detach_interface(guest.uuid, vif(1))
    before = slots(bridged_node, guest, LIVE)
    assert before.keys() == {vif(2).mac, vif(3).mac}
    place.driver.rescue(guest, Rescue(place.image.image_id, place.image))
    with pytest.raises(DriverError, match="is rescued"):
        place.driver.attach_interface(guest.uuid, vif(4))
    place.driver.unrescue(guest.uuid)
    assert slots(bridged_node, guest, LIVE) == before


@pytest.mark.parametrize("had_it", [LIVE, CONFIG])
def test_a_change_that_was_interrupted_is_completed(
    place: LibvirtPlace, bridged_node: BridgedNode, had_it: int
) -> None:
    guest, added = place.made(), vif(1)
    booted(place, guest)
    other = libvirt.VIR_DOMAIN_AFFECT_CONFIG if had_it == LIVE else libvirt.VIR_DOMAIN_AFFECT_LIVE
    place.driver.attach_interface(guest.uuid, added)
    connection = libvirt.open(bridged_node.node.uri)
    domain = connection.lookupByUUIDString(guest.uuid)
    interface = ET.fromstring(domain.XMLDesc()).find("devices/interface")
    assert interface is not None
    for repeated in (place.driver.attach_interface, place.driver.detach_interface):
        domain.detachDeviceFlags(ET.tostring(interface, "unicode"), other)
        wait_until(lambda: slots(bridged_node, guest, LIVE) != slots(bridged_node, guest, CONFIG), "half of the change")
        repeated(guest.uuid, added)
        assert slots(bridged_node, guest, LIVE) == slots(bridged_node, guest, CONFIG)
    assert slots(bridged_node, guest, LIVE) == {}
    connection.close()


def test_what_cannot_be_attached_leaves_the_guest_as_it_was(place: LibvirtPlace, bridged_node: BridgedNode) -> None:
    guest = place.made(vifs=(vif(1),))
    nowhere = VifNetwork(id=new_uuid(), label="net", bridge="br-none")
    with pytest.raises(DriverError):
        place.driver.attach_interface(guest.uuid, vif(2, network=nowhere))
    with pytest.raises(UnsupportedGuest, match="not bound"):
        place.driver.attach_interface(guest.uuid, vif(2, vif_type="unbound"))
    for which in (LIVE, CONFIG):
        assert slots(bridged_node, guest, which).keys() == {vif(1).mac}


def test_a_guest_that_does_not_release_an_interface_keeps_it(place: LibvirtPlace, bridged_node: BridgedNode) -> None:
    guest = place.made(place.stubborn, vifs=(vif(1),))
    booted(place, guest)
    with pytest.raises(DriverError, match="does not release port"):
        place.driver.detach_interface(guest.uuid, vif(1))
    for which in (LIVE, CONFIG):
        assert slots(bridged_node, guest, which).keys() == {vif(1).mac}
    place.driver.pause(guest.uuid)
    with pytest.raises(DriverError, match="is paused"):
        place.driver.detach_interface(guest.uuid, vif(1))
    place.driver.stop(guest.uuid)
    place.driver.detach_interface(guest.uuid, vif(1))
    assert slots(bridged_node, guest, CONFIG) == {}


def test_an_agent_that_ends_waits_no_longer(bridged_node: BridgedNode, tmp_path: Path) -> None:
    place = LibvirtPlace(bridged_node.node, tmp_path)
    guest = place.made(place.stubborn, vifs=(vif(1),))
    booted(place, guest)
    driver, ended = place.driver, threading.Event()

    def detach() -> None:
        with pytest.raises(AgentStopsError):
            driver.detach_interface(guest.uuid, vif(1))
        ended.set()

    thread = threading.Thread(target=detach)
    thread.start()
    threading.Event().wait(0.5)
    place.agent_dies()
    assert ended.wait(15)
    thread.join()
    place.clear()


def test_guests_that_are_suspended_or_absent(place: LibvirtPlace) -> None:
    guest = place.made()
    place.driver.suspend(guest.uuid)
    for change in (place.driver.attach_interface, place.driver.detach_interface):
        with pytest.raises(DriverError, match="is suspended"):
            change(guest.uuid, vif(1))
        with pytest.raises(GuestMissing):
            change(new_uuid(), vif(1))
