# SPDX-License-Identifier: Apache-2.0
"""Firmware and hypervisor features of a board, and requests that a board refuses."""

from dataclasses import replace

import pytest

from kilonova.compute.virt.libvirt.domain.description import Domain
from kilonova.errors import UnsupportedGuest
from support.guest_descriptions import HOST, Q35, described, guest_of, written


def firmware_of(domain: Domain) -> tuple[bool, bool, bool, str | None]:
    firmware = domain.firmware
    return firmware.efi, firmware.secure_boot, firmware.stateless, firmware.loader


@pytest.mark.parametrize(
    ("specs", "properties", "expected"),
    [
        ({}, {}, (True, False, False, None)),
        ({"os:secure_boot": "optional"}, {}, (True, False, False, None)),
        ({"os:secure_boot": "optional"}, {"hw_machine_type": "q35"}, (True, True, False, None)),
        ({}, {"os_secure_boot": "required", "hw_machine_type": "q35"}, (True, True, False, None)),
        ({"os:secure_boot": "disabled"}, {"hw_machine_type": "q35"}, (True, False, False, None)),
        ({}, {"hw_firmware_stateless": "yes", "hw_machine_type": "q35"}, (True, False, True, "/ovmf/OVMF_CODE.fd")),
    ],
)
def test_uefi(specs: dict[str, str], properties: dict[str, str], expected: tuple[bool, bool, bool, str | None]) -> None:
    assert firmware_of(described(guest_of(specs, {"hw_firmware_type": "uefi", **properties}))) == expected


def test_what_a_board_without_uefi_or_secure_boot_cannot_do() -> None:
    plain = replace(HOST, machines={"q35": replace(Q35, firmware=frozenset({"bios"}), secure_boot=False)})
    asked = {"hw_machine_type": "q35", "hw_firmware_type": "uefi"}
    with pytest.raises(UnsupportedGuest, match="hw_firmware_type=uefi"):
        described(guest_of(properties=asked), host=plain)
    insecure = replace(HOST, machines={"q35": replace(Q35, secure_boot=False)})
    with pytest.raises(UnsupportedGuest, match="os_secure_boot=required"):
        described(guest_of({"os:secure_boot": "required"}, asked), host=insecure)
    with pytest.raises(UnsupportedGuest, match="hw_firmware_stateless"):
        described(guest_of({"os:secure_boot": "required"}, {**asked, "hw_firmware_stateless": "yes"}))


def test_windows_under_kvm_knows_its_hypervisor_unless_it_is_hidden() -> None:
    kvm = replace(HOST, virt_type="kvm")
    windows = guest_of(properties={"os_type": "windows"})
    domain = described(windows, host=kvm)
    assert domain.clock.offset == "localtime"
    assert [timer.name for timer in domain.clock.timers] == ["pit", "rtc", "hpet", "hypervclock"]
    assert domain.features.hyperv
    assert domain.features.tb_cache_mib is None
    assert not described(windows).features.hyperv
    hidden = written(described(guest_of({"hw:hide_hypervisor_id": "1"}, {"os_type": "windows"}), host=kvm))
    assert hidden.find("features/hyperv/vendor_id") is not None
    assert hidden.find("features/kvm/hidden") is not None
