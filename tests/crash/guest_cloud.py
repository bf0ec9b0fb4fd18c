# SPDX-License-Identifier: Apache-2.0
"""Core of a control process with one host of real guests, and the checks of that host at rest."""

import contextlib
import re
import shutil
import subprocess
import time
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import libvirt
import sqlalchemy as sa

from crash import cloud
from crash.points import Watch
from crash.starters import OTHER_IMAGE
from kilonova.cli.up.tiny_image import tiny_image
from kilonova.compute.files.folders import OWNER
from kilonova.compute.virt.libvirt.domain.marks import NAMESPACE, GuestMark, read_mark
from kilonova.config.compute import ComputeSettings
from kilonova.config.libvirt import LibvirtSettings
from kilonova.config.settings import Settings
from kilonova.db import server_migrations
from kilonova.db.core import tables as t
from kilonova.identifiers import new_uuid
from kilonova.model.instance import PowerState, VmState
from support.cell import IMAGE, RESCUE_IMAGE, Cell
from support.folder_images import FolderImages
from support.waiting import wait_until
from support.world import STATES, check_world

HOST = "node1"
_PATIENCE = ComputeSettings(
    compute_driver="libvirt.LibvirtDriver",
    host=HOST,
    control_serves_host=True,
    cpu_allocation_ratio=16.0,
    reserved_host_memory_mib=0,
    shutdown_timeout_s=20,
    wait_soft_reboot_s=20,
)
_AT_MOST_S = 60.0
_LATER_S = 5.0
_COUNT_AT = 512  # byte offset of the tiny guest's boot counter on its disk


@dataclass(frozen=True)
class Ground:
    """Location of a cloud. ``uri``: of its libvirtd. ``folder``: for its files and its guests' files."""

    folder: Path
    uri: str

    @property
    def instances(self) -> Path:
        return self.folder / "instances"

    def prepare(self, schema: Path) -> None:
        """Create the files of a new cloud."""
        self.instances.mkdir(parents=True)
        shutil.copy(schema, self.folder / "kilonova.db")
        images = FolderImages(self.folder / "images")
        for image in (IMAGE, OTHER_IMAGE, RESCUE_IMAGE):
            images.add(image.id, tiny_image())

    def open(self, watch: Watch) -> Cell:
        """Start a process, including the state left by an earlier process."""

        def adapt(settings: Settings) -> Settings:
            return replace(
                settings,
                compute=replace(_PATIENCE, instances_path=self.instances),
                libvirt=LibvirtSettings(connection_uri=self.uri, virt_type="qemu"),
                conf=SimpleNamespace(options_of=lambda _: {}),
            )

        return cloud.open_cell(self.folder, (), watch, adapt=adapt)

    def boots(self, uuid: str) -> int:
        """Return the guest's own count of boots from its disk."""
        disk = self.instances / uuid / "disk"
        copy = self.folder / f"count-{uuid}"
        command = ["qemu-img", "dd", "-U", "-f", "qcow2", "-O", "raw", f"bs={_COUNT_AT}", "count=2"]
        subprocess.run([*command, f"if={disk}", f"of={copy}"], check=True, capture_output=True)
        data = copy.read_bytes()
        copy.unlink()
        return int.from_bytes(data[_COUNT_AT : _COUNT_AT + 2], "little")

    def wait_for_boot(self, uuid: str) -> int:
        """Wait until a running guest has counted a boot, and return the count."""
        wait_until(lambda: self.boots(uuid) > 0, "the guest to count its boot", at_most_s=30, every_s=0.1)
        return self.boots(uuid)


def come_to_rest(cell: Cell) -> None:
    cloud.come_to_rest(cell, at_most_s=_AT_MOST_S)


def faults(cell: Cell) -> list[tuple[str, str]]:
    """Return the faults of all existing servers."""
    joined = sa.join(t.instance_faults, t.instances, t.instance_faults.c.instance_uuid == t.instances.c.uuid)
    wanted = sa.select(t.instance_faults.c.message, t.instance_faults.c.details).select_from(joined)
    with cell.database.read() as connection:
        return [(row[0], row[1]) for row in connection.execute(wanted.where(t.instances.c.deleted.is_(False)))]


def check(cell: Cell, ground: Ground) -> None:
    """Check that servers, allocations, domains, folders and disks agree, without orphans. Raises: AssertionError."""
    until = time.monotonic() + _LATER_S
    while True:
        try:
            _check(cell, ground)
        except AssertionError:
            if time.monotonic() > until:
                raise
            time.sleep(0.1)
        else:
            return


def _check(cell: Cell, ground: Ground) -> None:
    driver = cell.drivers[HOST]
    guests = driver.list_guests()
    with cell.database.read() as connection:
        check_world(connection, {HOST: set(guests)})
        rows = connection.execute(sa.select(t.instances).where(t.instances.c.deleted.is_(False))).all()
        moves = connection.execute(sa.select(t.server_migrations).where(server_migrations.IS_OPEN)).all()
        faulty = set(connection.execute(sa.select(t.instance_faults.c.instance_uuid)).scalars())
        _check_images(connection, cell)
    kept = {move.instance_uuid for move in moves}
    here = {row.uuid: row for row in rows if row.host == HOST}
    domains = own_domains(ground.uri)
    assert set(domains) == set(here), f"domains {set(domains)} differ from servers {set(here)}"
    for uuid, row in here.items():
        state = PowerState(guests[uuid])
        assert uuid in faulty or state in STATES[row.vm_state], (row.vm_state, state)
        assert uuid in faulty or row.vm_state == VmState.ERROR or state == row.power_state, (state, row.power_state)
        _check_disks(ground.instances / uuid, row, is_rescued=row.vm_state == VmState.RESCUED)
        if uuid in kept:
            _check_disks(ground.instances / f"{uuid}_resize", row, is_rescued=False)
    wanted = {"_base", "snapshots", OWNER, *here, *(f"{uuid}_resize" for uuid in kept)}
    left = {each.name for each in ground.instances.iterdir()} - wanted
    assert not left, f"orphans in the folder of guests: {left}"
    copies = {each.name for each in ground.instances.glob("snapshots/*")}
    assert all(any(uuid in copy for uuid in here) for copy in copies), f"orphaned copies of images: {copies}"
    assert not {each for each in copies if each.endswith((".part", ".gone"))}, copies
    drafts = [each.name for each in ground.instances.glob("_base/*") if each.suffix in {".part", ".new"}]
    assert not drafts, drafts


def _check_disks(folder: Path, row: Any, *, is_rescued: bool) -> None:
    """Check the integrity of a guest's disks, and that its folder has no other files."""
    names = {each.name for each in folder.iterdir()}
    wanted = {"disk", "disks.json", "domain.xml"}
    wanted |= {"disk.config"} if row.config_drive else set()
    wanted |= {"disk.rescue"} if is_rescued else set()
    wanted |= {"disk.config.rescue"} if is_rescued and row.config_drive else set()
    assert names - {"console.log"} == wanted, names
    for name in names & {"disk", "disk.rescue"}:
        command = ["qemu-img", "check", "-U", "-q", "-f", "qcow2", str(folder / name)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr


def _check_images(connection: Any, cell: Cell) -> None:
    assert cell.images is not None
    assert connection.execute(sa.select(t.unwanted_images)).all() == [], "images that wait for their removal"
    own = {image_id: each for image_id, each in cell.images.all().items() if "instance_uuid" in each["properties"]}
    for image_id, each in own.items():
        assert each["data"], f"image {image_id} has no data"
    shelved = sa.select(t.instances.c.shelved_image).where(t.instances.c.deleted.is_(False))
    assert set(connection.execute(shelved).scalars()) - {None} <= set(own), "a shelved server without its snapshot"


def own_domains(uri: str) -> dict[str, int]:
    """Return the domains that carry Kilonova's mark, and their states."""
    connection = libvirt.open(uri)
    found: dict[str, int] = {}
    for domain in connection.listAllDomains():
        with contextlib.suppress(libvirt.libvirtError):
            mark = read_mark(domain.metadata(libvirt.VIR_DOMAIN_METADATA_ELEMENT, NAMESPACE, 0))
            if mark is not None and mark.uuid == domain.UUIDString():
                assert mark.uuid not in found
                found[mark.uuid] = domain.state()[0]
    connection.close()
    return found


def clear(uri: str) -> None:
    """Remove every domain after a violation."""
    connection = libvirt.open(uri)
    for domain in connection.listAllDomains():
        if domain.isActive():
            domain.destroy()
        with contextlib.suppress(libvirt.libvirtError):
            domain.undefineFlags(libvirt.VIR_DOMAIN_UNDEFINE_MANAGED_SAVE | libvirt.VIR_DOMAIN_UNDEFINE_NVRAM)
    connection.close()


# --- guests of other owners -------------------------------------------------------------------------------------------

_STRANGER = (
    "<domain type='qemu'><name>{name}</name><uuid>{uuid}</uuid><metadata>{mark}</metadata>"
    "<memory unit='MiB'>16</memory><os><type arch='x86_64' machine='pc'>hvm</type></os>"
    "<devices><controller type='usb' model='none'/></devices></domain>"
)


def add_strangers(uri: str) -> None:
    """Create foreign guests: without a mark, with a copied mark, with names like Kilonova's; running and off."""
    connection = libvirt.open(uri)
    mark = GuestMark(new_uuid(), datetime.now(UTC).replace(tzinfo=None)).xml()
    for name, its, runs in (
        ("instance-0000f001", "", True),
        ("instance-0000f002", mark, True),
        ("instance-0000f003", mark, False),
        ("database", "", False),
    ):
        domain = connection.defineXML(_STRANGER.format(name=name, uuid=new_uuid(), mark=its))
        if runs:
            domain.create()
    connection.close()


def strangers(uri: str) -> list[tuple[str, str, int, str]]:
    """Return the complete libvirt and disk state of the foreign guests."""
    own = own_domains(uri)
    connection = libvirt.open(uri)
    found = [
        (each.name(), each.UUIDString(), each.ID(), re.sub(r"\s+", " ", each.XMLDesc(0)))
        for each in connection.listAllDomains()
        if each.UUIDString() not in own
    ]
    connection.close()
    return sorted(found)
