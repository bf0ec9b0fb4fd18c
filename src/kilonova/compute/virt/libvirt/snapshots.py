# SPDX-License-Identifier: Apache-2.0
"""Snapshots of libvirt guests, running or not."""

from kilonova.compute.virt.abilities import SnapshotMonitor
from kilonova.compute.virt.libvirt.domain.description import DiskFile, DiskRole
from kilonova.compute.virt.libvirt.hypervisor import LibvirtHost
from kilonova.compute.virt.libvirt.live_copies import copy_of_running
from kilonova.errors import DriverError
from kilonova.model.image_data import ImageData
from kilonova.model.instance import PowerState
from kilonova.records import dataclass

_AWAKE = (PowerState.RUNNING, PowerState.PAUSED)


@dataclass(frozen=True, slots=True, eq=False)
class Snapshots:
    """Copies disks and uploads the copies."""

    host: LibvirtHost

    def snapshot(self, uuid: str, image_id: str, base: ImageData | None, monitor: SnapshotMonitor) -> None:
        del base  # a snapshot copies the whole disk, so the base image is not needed
        domain = self.host.domains.get(uuid)
        root = next((disk for disk in self.host.disks.present(uuid) if disk.role is DiskRole.ROOT), None)
        if root is None:
            raise DriverError(f"The host has no disk of guest {uuid}.")
        if self.host.copies.is_done(uuid, image_id):
            return
        monitor.check()
        if domain.power_state() not in _AWAKE:
            self.host.copies.copy_for_image(uuid, image_id, root, monitor.check)
            return
        with self.host.copies.scratch(uuid) as scratch:
            copy_of_running(domain, root.path, scratch, monitor)
            self.host.copies.copy_for_image(uuid, image_id, DiskFile(DiskRole.ROOT, scratch, "qcow2"), monitor.check)

    def upload_snapshot(self, uuid: str, image: ImageData, monitor: SnapshotMonitor) -> None:
        if not self.host.copies.has_brought(uuid, image.image_id):
            monitor.check()
            copy = self.host.copies.for_upload(uuid, image.image_id, monitor.check, disk_format=image.disk_format)
            self.host.setup.images.upload(image, copy, monitor.check)
        self.host.copies.note_brought(uuid, image.image_id)

    def discard_snapshot(self, uuid: str) -> None:
        self.host.copies.discard(uuid)
