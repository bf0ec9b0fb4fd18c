# SPDX-License-Identifier: Apache-2.0
"""Which PCI devices of a host guests may have."""

import json
from dataclasses import replace
from typing import Any

import pytest

from kilonova.compute.virt.libvirt.host.pci_devices import (
    PciDevice,
    pools_of,
    read_device,
    read_device_specs,
    read_mac,
)
from kilonova.errors import ConfigurationError
from kilonova.model.pci import PF, STANDARD, VF, CardFacts, PciPool

_GPU = PciDevice("0000:3b:00.0", "10de", "1db4", STANDARD, 0)
_NIC = PciDevice("0000:81:00.1", "8086", "1572", PF, 1)
_PORT = PciDevice("0000:81:0a.3", "8086", "154c", VF, 1, physical="0000:81:00.1")
_OTHER_PORT = PciDevice("0000:82:0a.0", "8086", "154c", VF, None, physical="0000:82:00.0")
_DEVICES = (_GPU, _NIC, _PORT, _OTHER_PORT)


def _chosen(*specs: Any) -> list[str]:
    pools = pools_of(_DEVICES, read_device_specs([json.dumps(spec) for spec in specs]))
    return sorted(address for pool in pools for address in pool.addresses)


@pytest.mark.parametrize(
    ("spec", "devices"),
    [
        ({"vendor_id": "10de"}, [_GPU]),
        ({"vendor_id": "10DE", "product_id": "1db4"}, [_GPU]),
        ({"vendor_id": "*", "product_id": "154c"}, [_PORT, _OTHER_PORT]),
        ({"vendor_id": "10de", "product_id": "0000"}, []),
        ({"address": "0000:3b:00.0"}, [_GPU]),
        ({"address": "3b:00.0"}, [_GPU]),
        ({"address": "*:81:*.*"}, [_NIC, _PORT]),
        ({"address": ":81:0a."}, [_PORT]),
        ({"address": "*:*:*.*", "vendor_id": "8086"}, [_NIC, _PORT, _OTHER_PORT]),
        ({"address": "0000:81:00.1"}, [_NIC, _PORT]),
        ({"address": "0000:81:00.1", "product_id": "154c"}, [_PORT]),
        ({"address": {"domain": ".*", "bus": "8[12]", "slot": "0A", "function": "[0-2]"}}, [_OTHER_PORT]),
        ({"address": {"bus": "3b"}}, [_GPU]),
        ([{"vendor_id": "10de"}, {"address": "*:82:*.*"}], [_GPU, _OTHER_PORT]),
        ({}, list(_DEVICES)),
    ],
)
def test_devices_are_chosen_by_their_makers_and_addresses(spec: Any, devices: list[PciDevice]) -> None:
    assert _chosen(spec) == sorted(device.address for device in devices)


def test_alike_devices_are_a_pool_with_the_tags_of_the_first_spec_that_matches() -> None:
    specs = read_device_specs(
        [
            '{"address": "*:81:0a.*", "physical_network": "physnet1", "trusted": "True", "resource_class": "CUSTOM_X"}',
            '{"vendor_id": "8086", "product_id": "154c", "live_migratable": "yes"}',
        ]
    )
    again = PciDevice("0000:81:0a.2", "8086", "154c", VF, 1, physical="0000:81:00.1")
    assert pools_of([_PORT, again, _OTHER_PORT, _GPU], specs) == (
        PciPool(
            0,
            "8086",
            "154c",
            2,
            1,
            VF,
            (("physical_network", "physnet1"), ("trusted", "true")),
            addresses=("0000:81:0a.2", "0000:81:0a.3"),
        ),
        PciPool(1, "8086", "154c", 1, None, VF, (("live_migratable", "true"),), addresses=("0000:82:0a.0",)),
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "JSON"),
        ("[1]", "object"),
        ('{"devname": "eth0"}', "devname is not supported"),
        ('{"vendor_id": "nvidia"}', "vendor_id"),
        ('{"address": "81:zz.0"}', "0000:0a:00.1"),
        ('{"address": "0:0:0:0:0.0"}', "0000:0a:00.1"),
        ('{"address": {"bus": "["}}', "regular expression"),
        ('{"address": {"device": "1"}}', "domain, bus, slot, function"),
    ],
)
def test_a_spec_that_cannot_be_read_is_refused(text: str, said: str) -> None:
    with pytest.raises(ConfigurationError, match=r"\[pci\] device_spec") as raised:
        read_device_specs([text])
    assert said in raised.value.message


_CARD = replace(_NIC, virtual=("0000:81:0a.2", "0000:81:0a.3"), serial="MT2113X00000")
_MACS = {"0000:81:00.1": "0c:42:a1:de:cf:7c"}


def test_functions_of_network_cards_have_the_facts_of_their_card() -> None:
    pools = pools_of([_CARD, _PORT, _OTHER_PORT, _GPU], read_device_specs(["{}"]), _MACS)
    assert dict(pair for pool in pools for pair in pool.cards) == {
        _NIC.address: CardFacts(card_serial_number="MT2113X00000", mac_address="0c:42:a1:de:cf:7c"),
        _PORT.address: CardFacts(card_serial_number="MT2113X00000", pf_mac_address="0c:42:a1:de:cf:7c", vf_num=1),
    }


def test_remote_managed_devices_are_virtual_functions_of_cards_with_a_serial_number(
    caplog: pytest.LogCaptureFixture,
) -> None:
    specs = read_device_specs(['{"vendor_id": "8086", "remote_managed": "yes", "physical_network": "public"}'])
    (pool,) = pools_of([_CARD, _PORT, _OTHER_PORT, _GPU], specs, _MACS)
    assert (pool.addresses, dict(pool.tags)["remote_managed"]) == ((_PORT.address,), "true")
    assert f"Device {_NIC.address} is not offered" in caplog.text
    assert f"Device {_OTHER_PORT.address} is not offered" in caplog.text


def test_network_devices_as_libvirt_describes_them() -> None:
    text = "<device><name>n</name><parent>pci_0000_81_00_1</parent><capability type='net'>{}</capability></device>"
    assert read_mac(text.format("<address>0C:42:A1:DE:CF:7C</address>")) == ("pci_0000_81_00_1", "0c:42:a1:de:cf:7c")
    assert read_mac(text.format("")) is None
    assert read_mac("<device><name>lo</name><capability type='net'><address>00</address></capability></device>") is None


_XML = """<device><name>pci_0000_81_0a_3</name><capability type='pci'><class>{kind}</class><domain>0</domain>
<bus>129</bus><slot>10</slot><function>3</function><product id='0x154C'>Virtual Function</product>
<vendor id='0x8086'>Intel</vendor>{more}</capability></device>"""


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ("", PciDevice("0000:81:0a.3", "8086", "154c")),
        ("<numa node='1'/>", PciDevice("0000:81:0a.3", "8086", "154c", STANDARD, 1)),
        ("<capability type='virt_functions' maxCount='7'/>", PciDevice("0000:81:0a.3", "8086", "154c", PF)),
        (
            """<capability type='virt_functions' maxCount='7'>
            <address domain='0x0000' bus='0x81' slot='0x0b' function='0x0'/>
            <address domain='0x0000' bus='0x81' slot='0x0a' function='0x7'/></capability>
            <capability type='vpd'><fields><serial_number>MT1</serial_number></fields></capability>""",
            PciDevice("0000:81:0a.3", "8086", "154c", PF, virtual=("0000:81:0b.0", "0000:81:0a.7"), serial="MT1"),
        ),
        (
            "<capability type='phys_function'>{address}</capability>".format(
                address="<address domain='0x0000' bus='0x81' slot='0x00' function='0x1'/>"
            ),
            PciDevice("0000:81:0a.3", "8086", "154c", VF, None, "0000:81:00.1"),
        ),
    ],
)
def test_devices_as_libvirt_describes_them(more: str, expected: PciDevice) -> None:
    assert read_device(_XML.format(kind="0x020000", more=more)) == expected


def test_bridges_are_for_nobody() -> None:
    assert read_device(_XML.format(kind="0x060400", more="")) is None
    assert read_device("<device><name>computer</name></device>") is None
