# SPDX-License-Identifier: Apache-2.0
"""Guests with every device model that the test machine reports; each is started, not only defined."""

import contextlib
from collections.abc import Iterator, Mapping
from itertools import zip_longest
from pathlib import Path
from typing import Any
from uuid import uuid4

import libvirt
import pytest

from kilonova.compute.files.images import HostImages
from kilonova.compute.virt.host_setup import HostSetup
from kilonova.compute.virt.libvirt.domain.description import DiskFile, DiskRole
from kilonova.compute.virt.libvirt.domain.domain_xml import domain_xml
from kilonova.compute.virt.libvirt.domain.hardware import describe
from kilonova.compute.virt.libvirt.host.capabilities import HostCapabilities
from kilonova.compute.virt.libvirt.host.models import supported_models
from kilonova.compute.virt.libvirt.late_check import why_not
from kilonova.compute.virt.libvirt.report import HostReport
from kilonova.config.libvirt import LibvirtSettings
from kilonova.model.instance import GuestSpec
from support.libvirt_node import LibvirtNode

_SETTINGS = LibvirtSettings(virt_type="qemu", swtpm_enabled=True)
_FAMILIES = (
    *("hw_video_model", "hw_disk_bus", "hw_cdrom_bus", "hw_sound_model", "hw_usb_model", "hw_input_bus"),
    *("hw_watchdog_action", "hw_scsi_model", "hw_viommu_model", "hw_tpm_model", "hw_firmware_type"),
)
#: Property → further properties that its values need.
_ALSO: Mapping[str, Mapping[str, str]] = {"hw_tpm_model": {"hw_tpm_version": "2.0"}}
#: Models that a machine type does not have.
_LACKING = {
    "pc": {("hw_viommu_model", "intel"), ("hw_viommu_model", "virtio"), ("hw_viommu_model", "auto")},
    "q35": {("hw_disk_bus", "ide"), ("hw_cdrom_bus", "ide")},
}
#: Values that conflict with other values; other tests cover them.
_LEFT_OUT = {("hw_usb_model", "none"), ("hw_cdrom_bus", "virtio"), ("hw_cdrom_bus", "fdc"), ("hw_video_model", "ramfb")}


@pytest.fixture
def host(connection: Any, tmp_path: Path) -> HostCapabilities:
    setup = HostSetup("host1", tmp_path, HostImages(tmp_path / "images", max_bytes=0))
    return HostReport(setup, _SETTINGS).capabilities(connection)


def _guest(properties: Mapping[str, str]) -> GuestSpec:
    uuid = str(uuid4())
    return GuestSpec(
        uuid=uuid,
        name=f"model-{uuid}",
        hostname="model",
        vcpus=1,
        memory_mib=64,
        root_gib=1,
        image_properties=properties,
    )


def _guests(host: HostCapabilities, machine: str) -> Iterator[Mapping[str, str]]:
    """Yield image properties of few guests that together have every reported model of a machine type."""
    models = supported_models(host, _SETTINGS)
    left_out = _LACKING[machine] | _LEFT_OUT
    families = {name: [value for value in sorted(models[name]) if (name, value) not in left_out] for name in _FAMILIES}
    alone = families.pop("hw_scsi_model")
    for values in zip_longest(*families.values()):
        chosen = {"hw_machine_type": machine}
        for name, value in zip(families, values, strict=True):
            chosen |= {} if value is None else {**_ALSO.get(name, {}), name: value}
        yield chosen
    for value in alone:
        yield {"hw_machine_type": machine, "hw_disk_bus": "scsi", "hw_scsi_model": value}


def _start(connection: Any, xml: str) -> None:
    """Start a guest without an operating system, and remove it. Raises: libvirtError."""
    domain = connection.defineXML(xml)
    try:
        domain.createWithFlags(libvirt.VIR_DOMAIN_START_PAUSED)
    finally:
        with contextlib.suppress(libvirt.libvirtError):
            domain.destroy()
        domain.undefineFlags(libvirt.VIR_DOMAIN_UNDEFINE_NVRAM)


def _xml(host: HostCapabilities, properties: Mapping[str, str], node: LibvirtNode) -> str:
    disk, drive = node.instances / "models.disk", node.instances / "models.drive"
    for path in (disk, drive):
        path.write_bytes(bytes(1 << 20))
    disks = DiskFile(DiskRole.ROOT, disk, "raw"), DiskFile(DiskRole.CONFIG, drive, "raw")
    log = node.instances / "models.log"
    return domain_xml(describe(_guest(properties), host, disks, _SETTINGS, console_log=log))


@pytest.mark.parametrize("machine", ["pc", "q35"])
def test_a_guest_with_any_model_that_is_reported_starts(
    connection: Any, host: HostCapabilities, libvirt_node: LibvirtNode, machine: str
) -> None:
    for properties in _guests(host, machine):
        assert why_not(_guest(properties), host, _SETTINGS) is None, properties
        try:
            _start(connection, _xml(host, properties, libvirt_node))
        except libvirt.libvirtError as error:
            pytest.fail(f"{properties}: {error}")


def test_a_guest_with_every_network_card_that_is_reported_starts(
    connection: Any, host: HostCapabilities, libvirt_node: LibvirtNode
) -> None:
    cards = "".join(
        f"<interface type='user'><model type='{model}'/></interface>"
        for model in sorted(supported_models(host, _SETTINGS)["hw_vif_model"])
    )
    xml = _xml(host, {"hw_machine_type": "pc"}, libvirt_node)
    _start(connection, xml.replace("</devices>", f"{cards}</devices>"))


@pytest.mark.parametrize("model", ["igb", "lan9118", "spapr-vlan"])
def test_libvirt_finds_only_at_the_start_that_qemu_lacks_a_network_card(
    connection: Any, host: HostCapabilities, libvirt_node: LibvirtNode, model: str
) -> None:
    if model in host.nic_models:
        assert why_not(_guest({"hw_vif_model": model}), host, _SETTINGS) is None
        return
    assert why_not(_guest({"hw_vif_model": model}), host, _SETTINGS) is not None
    card = f"<interface type='user'><model type='{model}'/></interface>"
    xml = _xml(host, {}, libvirt_node).replace("</devices>", f"{card}</devices>")
    with pytest.raises(libvirt.libvirtError):
        _start(connection, xml)
