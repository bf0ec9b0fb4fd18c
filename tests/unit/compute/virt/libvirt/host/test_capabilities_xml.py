# SPDX-License-Identifier: Apache-2.0
"""What is read from libvirt's descriptions of a host."""

import pytest

from kilonova.compute.virt.libvirt.host.capabilities import CellCpu
from kilonova.compute.virt.libvirt.host.capabilities_xml import read_host
from support.libvirt_hosts import arm, debian_12, facts_of, text_of, two_sockets


def test_a_machine_is_found_by_its_name_and_by_its_alias() -> None:
    host = debian_12()
    assert host.machines["q35"] is host.machines["pc-q35-7.2"]
    assert host.machines["q35"].name == "pc-q35-7.2"
    assert {"pc", "pc-i440fx-7.2", "pc-q35-5.2", "isapc"} <= host.machines.keys()
    assert host.default_machine == "pc-i440fx-7.2"
    names = [board.name for board in host.boards]
    assert sorted(names) == sorted(set(host.machines.values()) and {each.name for each in host.machines.values()})


def test_each_machine_has_its_own_disk_buses_firmware_and_number_of_cpus() -> None:
    host = debian_12()
    q35, pc = host.machines["q35"], host.machines["pc"]
    assert q35.disk_buses == {"fdc", "scsi", "virtio", "usb", "sata"}
    assert pc.disk_buses == {"fdc", "scsi", "virtio", "usb", "sata", "ide"}
    assert (q35.max_vcpus, pc.max_vcpus) == (288, 255)
    assert q35.firmware == pc.firmware == {"bios", "efi"}
    assert (q35.secure_boot, pc.secure_boot) == (True, False)
    assert pc.loaders == ("/usr/share/OVMF/OVMF_CODE_4M.fd",)
    assert "/usr/share/OVMF/OVMF_CODE_4M.secboot.fd" in q35.loaders
    assert {"vga", "qxl", "virtio", "none", "bochs"} <= q35.video_models


def test_devices_that_are_not_supported_have_no_models() -> None:
    assert debian_12().machines["q35"].tpm_models == {"tpm-tis", "tpm-crb"}
    assert debian_12().machines["q35"].tpm_versions == {"1.2", "2.0"}
    q35 = two_sockets().machines["q35"]
    assert (q35.tpm_models, q35.tpm_backends, q35.tpm_versions) == (frozenset(), frozenset(), frozenset())
    assert q35.filesystems == {"path", "virtiofs"}


def test_network_cards_are_those_of_the_emulator_and_those_that_a_newer_libvirt_names() -> None:
    assert debian_12().nic_models == {"virtio", "e1000", "e1000e", "ne2k_pci", "pcnet", "rtl8139", "vmxnet3"}
    assert two_sockets().nic_models == {"virtio", "e1000e", "igb"}
    assert arm().nic_models == {"virtio"}


def test_cpu_models_that_the_host_cannot_run_are_left_out() -> None:
    assert debian_12().cpu_models == {"qemu64", "kvm64", "Nehalem", "Westmere"}
    assert two_sockets().cpu_models == {"EPYC-Milan", "EPYC", "qemu64"}
    assert debian_12().cpu_modes == {"maximum", "host-model", "custom"}
    assert two_sockets().cpu_modes == {"host-passthrough", "maximum", "host-model", "custom"}
    assert arm().cpu_modes == {"host-passthrough", "custom"}


def test_host_model_is_a_model_with_features_more_and_less() -> None:
    model = two_sockets().host_model
    assert model is not None
    assert (model.name, model.vendor) == ("EPYC-Milan", "AMD")
    assert (model.features, model.disabled) == ({"svm", "vaes"}, {"sse4a"})
    assert arm().host_model is None


def test_the_cpus_of_the_host() -> None:
    cpu = two_sockets().cpu
    assert (cpu.model, cpu.vendor, cpu.address_bits) == ("EPYC-Milan", "AMD", 48)
    assert (cpu.sockets, cpu.dies, cpu.cores, cpu.threads) == (1, 1, 2, 2)
    assert cpu.features == {"ht", "aes", "svm", "npt"}


def test_cells_with_hyperthreads_and_pages_and_memory_in_any_unit() -> None:
    first, second = two_sockets().cells
    assert first.memory_kib == second.memory_kib == 64 * 1024 * 1024
    assert first.pages == {4: 12582912, 2048: 4096, 1048576: 8}
    assert first.cpus[0] == CellCpu(0, 0, frozenset({0, 4}))
    assert {cpu.socket for cpu in second.cpus} == {1}


def test_an_offline_cpu_is_a_core_of_its_own() -> None:
    assert arm().cells[0].cpus[2] == CellCpu(2, None, frozenset({2}))


def test_architectures_that_are_emulated_are_told_with_the_way_they_run() -> None:
    kinds = {kind.architecture: kind for kind in facts_of("two-sockets").kinds}
    assert kinds["x86_64"].domain_types == {"qemu", "kvm"}
    assert (kinds["aarch64"].emulator, kinds["aarch64"].domain_types) == ("/usr/bin/qemu-system-aarch64", {"qemu"})
    assert two_sockets().machines.keys() == {"q35", "pc-q35-10.1"}


def test_machines_of_arm_start_by_uefi_only() -> None:
    assert arm().machines["virt"].firmware == {"efi"}
    assert arm().machines.keys() == {"virt", "virt-7.2"}


def test_a_host_without_an_emulator_for_itself_is_refused() -> None:
    text = text_of("arm", "capabilities").replace("<arch>aarch64</arch>", "<arch>s390x</arch>")
    with pytest.raises(ValueError, match="no emulator for s390x"):
        read_host(text)
