# SPDX-License-Identifier: Apache-2.0
"""Point-in-time copy of a running guest's disk, while the guest continues to write."""

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from xml.etree import ElementTree as ET

import libvirt

from kilonova.compute.virt.abilities import SnapshotMonitor
from kilonova.compute.virt.libvirt.connection import explained
from kilonova.compute.virt.libvirt.domains import OwnDomain
from kilonova.errors import DriverError

LOG = logging.getLogger(__name__)
_LOOK_S = 0.1


def copy_of_running(domain: OwnDomain, disk: Path, target: Path, monitor: SnapshotMonitor) -> None:
    """Copy a disk, including its backing file's data, to a new qcow2 file ``target``.

    Raises: SnapshotCancelled, AgentStopsError, DriverError; then ``target`` is incomplete.
    """
    with explained(f"copy the disk of guest {domain.uuid}"):
        _give_up(domain)  # an agent that was killed may have left a backup job
        with _quiet(domain):
            domain.handle.backupBegin(_order(_device_of(domain, disk), target), None, 0)
        try:
            while _is_under_way(domain):
                monitor.check()
                time.sleep(_LOOK_S)
        except BaseException:
            with suppress(libvirt.libvirtError):
                _give_up(domain)
            raise
        if not domain.handle.jobStats(libvirt.VIR_DOMAIN_JOB_STATS_COMPLETED).get("success", False):
            raise DriverError(f"The hypervisor could not copy the disk of guest {domain.uuid} completely.")


def _is_under_way(domain: OwnDomain) -> bool:
    return bool(domain.handle.jobStats()["type"] != libvirt.VIR_DOMAIN_JOB_NONE)


def _give_up(domain: OwnDomain) -> None:
    if domain.handle.jobStats().get("operation") == libvirt.VIR_DOMAIN_JOB_OPERATION_BACKUP:
        domain.handle.abortJob()
        while _is_under_way(domain):
            time.sleep(_LOOK_S)


def _device_of(domain: OwnDomain, disk: Path) -> str:
    """Return the device name of a guest's disk file, such as vda. Raises: DriverError."""
    for found in ET.fromstring(domain.handle.XMLDesc(0)).iterfind("devices/disk"):  # noqa: S314 - XML from libvirt
        source, target = found.find("source"), found.find("target")
        if source is not None and target is not None and source.get("file") == str(disk):
            return target.get("dev", "")
    raise DriverError(f"Guest {domain.uuid} does not run from its own disk.")


def _order(device: str, target: Path) -> str:
    root = ET.Element("domainbackup", mode="push")
    disk = ET.SubElement(ET.SubElement(root, "disks"), "disk", name=device, type="file")
    ET.SubElement(disk, "driver", type="qcow2")
    ET.SubElement(disk, "target", file=str(target))
    return ET.tostring(root, "unicode")


@contextmanager
def _quiet(domain: OwnDomain) -> Iterator[None]:
    """Freeze the guest's file systems within the block, if a guest agent answers.

    Raises: DriverError if no guest agent answers and the image requires the freeze.
    """
    try:
        domain.handle.fsFreeze()
    except libvirt.libvirtError as error:
        if domain.mark.must_be_quiet:
            raise DriverError(f"No agent inside guest {domain.uuid} can freeze its file systems.") from error
        yield
        return
    try:
        yield
    finally:
        try:
            domain.handle.fsThaw()
        except libvirt.libvirtError:
            LOG.exception("The file systems of guest %s may still be frozen", domain.uuid)
