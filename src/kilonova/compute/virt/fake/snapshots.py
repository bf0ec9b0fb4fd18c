# SPDX-License-Identifier: Apache-2.0
"""Snapshots of simulated guests: copies and uploads of real disk files."""

from kilonova.compute.virt.abilities import SnapshotMonitor
from kilonova.compute.virt.fake.hypervisor import SimulatedHypervisor
from kilonova.errors import DriverError
from kilonova.model.image_data import ImageData
from kilonova.records import dataclass


@dataclass(frozen=True, slots=True, eq=False)
class Snapshots:
    """Copies disks and uploads the copies."""

    hypervisor: SimulatedHypervisor

    def snapshot(self, uuid: str, image_id: str, base: ImageData | None, monitor: SnapshotMonitor) -> None:
        self.hypervisor.take(self.hypervisor.host.snapshot_delay_s)
        monitor.check()
        with self.hypervisor.lock:
            self.hypervisor.present(uuid)
            if self.hypervisor.is_to_fail("snapshot"):
                raise DriverError(f"Simulated failure to take a snapshot of guest {uuid}.")
        disk = self.hypervisor.disks.find(uuid)
        if disk is None:  # the guest was created by an old release, or came from another process's host
            if self.hypervisor.images is None or base is None:
                raise DriverError(f"Host {self.hypervisor.host.name} has no disk of guest {uuid}.")
            disk = self.hypervisor.images.fetch(base)
            self.hypervisor.disks.make(uuid, disk)
        self.hypervisor.disks.copy(uuid, image_id, disk, monitor.check)

    def upload_snapshot(self, uuid: str, image: ImageData, monitor: SnapshotMonitor) -> None:
        if self.hypervisor.disks.copies.has_brought(uuid, image.image_id):
            self.hypervisor.disks.copies.note_brought(uuid, image.image_id)
            return
        copy = self.hypervisor.disks.copies.copied(uuid, image.image_id)
        if copy is None or self.hypervisor.images is None:
            raise DriverError(
                f"Host {self.hypervisor.host.name} has no snapshot of guest {uuid} for image {image.image_id}."
            )
        monitor.check()
        self.hypervisor.images.upload(image, copy, monitor.check)
        self.hypervisor.disks.copies.note_brought(uuid, image.image_id)

    def discard_snapshot(self, uuid: str) -> None:
        self.hypervisor.disks.copies.discard(uuid)
