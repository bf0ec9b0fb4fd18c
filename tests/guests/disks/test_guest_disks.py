# SPDX-License-Identifier: Apache-2.0
"""Disk files of guests, made by qemu-img."""

import json
import os
import stat
import subprocess
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from kilonova.compute.files.images import HostImages
from kilonova.compute.virt.libvirt.disks.disk_records import bases_in_use
from kilonova.compute.virt.libvirt.disks.guest_disks import GuestDisks
from kilonova.compute.virt.libvirt.domain.description import DiskFile, DiskRole
from kilonova.config.libvirt import LibvirtSettings
from kilonova.errors import DriverError, GuestMissing, ImageUnusable, UnsupportedGuest
from kilonova.model.config_drive import ConfigDrive
from kilonova.model.image_data import ImageData
from kilonova.model.instance import GuestSpec
from kilonova.model.local_disk import EphemeralDisk
from support.real_images import MIB, RealImages, qemu_img

ORDERED_AT = datetime(2026, 3, 29, 2, 30, tzinfo=UTC).replace(tzinfo=None)
GIB = 1 << 30
MakeDisks = Callable[..., GuestDisks]


@pytest.fixture
def service(tmp_path: Path) -> RealImages:
    return RealImages(tmp_path / "service")


@pytest.fixture
def instances(tmp_path: Path) -> Path:
    return tmp_path / "instances"


@pytest.fixture
def disks_with(instances: Path, service: RealImages) -> MakeDisks:
    def make(**settings: Any) -> GuestDisks:
        images = HostImages(
            instances / "_base", max_bytes=1 << 40, transfers=service, sleep=lambda _s: None,
            in_use=lambda: bases_in_use(instances),
        )  # fmt: skip
        return GuestDisks(instances, images, LibvirtSettings(**settings))

    return make


def guest(image: ImageData | None, uuid: str = "g1", **more: Any) -> GuestSpec:
    return replace(
        GuestSpec(
            uuid=uuid, name=uuid, hostname=uuid, vcpus=1, memory_mib=64, root_gib=1, image=image, ordered_at=ORDERED_AT
        ),
        **more,
    )


def info(disk: DiskFile) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(qemu_img("info", "--output=json", "-f", disk.format, disk.path))
    return found


def start_of(disk: DiskFile, tmp_path: Path) -> bytes:
    whole = tmp_path / "whole.raw"
    qemu_img("convert", "-f", disk.format, "-O", "raw", disk.path, whole)
    with whole.open("rb") as file:
        return file.read(20).rstrip(b"\0")


def write_to(disk: DiskFile, what: str) -> None:
    subprocess.run(
        ["qemu-io", "-f", disk.format, "-c", f"write -q -P {ord(what)} 1M 64k", str(disk.path)],
        check=True, capture_output=True,
    )  # fmt: skip


def has(disk: DiskFile, what: str) -> bool:
    command = ["qemu-io", "-f", disk.format, "-c", f"read -q -P {ord(what)} 1M 64k", str(disk.path)]
    done = subprocess.run(command, check=False, capture_output=True)
    return done.returncode == 0 and b"failed" not in done.stdout


def of_role(disks: tuple[DiskFile, ...], role: DiskRole) -> DiskFile:
    return next(disk for disk in disks if disk.role is role)


def left(instances: Path) -> set[str]:
    return {path.name for path in instances.iterdir()} - {"_base"}


# --- created files ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("disk_format", ["raw", "qcow2", "vmdk", "vdi", "vhd", "vhdx"])
@pytest.mark.parametrize("images_type", ["qcow2", "raw"])
def test_a_root_disk_is_made_of_an_image_of_any_format(
    disks_with: MakeDisks, service: RealImages, tmp_path: Path, disk_format: str, images_type: str
) -> None:
    image = service.make("image-1", disk_format)
    (root,) = disks_with(images_type=images_type).make(guest(image))
    assert (root.role, root.format) == (DiskRole.ROOT, images_type)
    assert info(root)["virtual-size"] == GIB
    assert start_of(root, tmp_path) == b"image-1"
    assert root.path.stat().st_blocks * 512 < 8 * MIB
    base = info(root).get("full-backing-filename")
    if images_type == "qcow2":
        assert Path(base).parent == tmp_path / "instances" / "_base"
        assert info(root)["backing-filename-format"] == "raw"
    else:
        assert base is None


def test_a_qcow2_image_is_kept_as_it_is_where_the_operator_says_so(disks_with: MakeDisks, service: RealImages) -> None:
    image = service.make("image-1", "qcow2")
    (root,) = disks_with(force_raw_images=False).make(guest(image))
    assert info(root)["backing-filename-format"] == "qcow2"
    (raw,) = disks_with(force_raw_images=False, images_type="raw").make(guest(image, "g2"))
    assert info(raw)["virtual-size"] == GIB
    assert service.asked == ["image-1"]


def test_a_flavor_without_a_root_disk_gives_one_as_large_as_the_image(
    disks_with: MakeDisks, service: RealImages
) -> None:
    (root,) = disks_with().make(guest(service.make("image-1", "qcow2", mib=7), root_gib=0))
    assert info(root)["virtual-size"] == 7 * MIB


def test_a_guest_without_an_image_has_an_empty_disk(disks_with: MakeDisks) -> None:
    (root,) = disks_with().make(guest(None))
    assert (info(root)["virtual-size"], root.format) == (GIB, "qcow2")


def test_an_iso_image_is_a_cd(disks_with: MakeDisks, service: RealImages, tmp_path: Path) -> None:
    from kilonova.compute.config_drives import iso9660_of

    (tmp_path / "cd.iso").write_bytes(iso9660_of({"a": b"b"}))
    (root,) = disks_with().make(guest(service.add("cd", tmp_path / "cd.iso", "iso")))
    assert root.is_cdrom
    assert info(root)["virtual-size"] == (tmp_path / "cd.iso").stat().st_size


def test_the_further_disks_of_a_flavor(disks_with: MakeDisks, service: RealImages, instances: Path) -> None:
    image = service.make("image-1", "qcow2")
    disks = disks_with()
    wanted = {"ephemeral_gib": 1, "swap_mib": 16, "image_properties": {"os_type": "linux"}}
    made = disks.make(guest(image, config_drive=ConfigDrive("vm"), **wanted))
    assert [disk.role.value for disk in made] == ["root", "ephemeral", "swap", "config"]
    assert [disk.path.name for disk in made] == ["disk", "disk.eph0", "disk.swap", "disk.config"]
    ephemeral, swap, config = made[1:]
    kind = subprocess.run(["blkid", "-p", "-o", "export", swap.path], check=True, capture_output=True, text=True).stdout
    assert "TYPE=swap" in kind
    assert swap.path.stat().st_size == 16 * MIB
    base = instances / "_base" / "ephemeral_1_ext4.raw"
    kind = subprocess.run(["blkid", "-p", "-o", "export", base], check=True, capture_output=True, text=True).stdout
    assert {"TYPE=ext4", "LABEL=ephemeral0"} <= set(kind.split("\n"))
    assert info(ephemeral)["full-backing-filename"] == str(base)
    assert b"config-2" in config.path.read_bytes()
    before = base.stat().st_ino
    other = disks.make(guest(image, "g2", **wanted))
    assert info(other[1])["full-backing-filename"] == str(base)
    assert base.stat().st_ino == before
    assert disks.present("g1") == made


def kind_of(file: Path) -> set[str]:
    """Return what blkid finds in a raw file."""
    found = subprocess.run(["blkid", "-p", "-o", "export", file], check=True, capture_output=True, text=True).stdout
    return set(found.split("\n"))


def test_requested_disks_have_their_own_sizes_file_systems_and_buses(
    disks_with: MakeDisks, service: RealImages, instances: Path
) -> None:
    image, disks = service.make("image-1", "qcow2"), disks_with()
    asked = (EphemeralDisk(1, "ext4"), EphemeralDisk(2, "vfat", "scsi"))
    wanted = guest(image, requested_ephemeral=asked, swap_mib=8, swap_bus="scsi")
    made = disks.make(wanted)
    assert [disk.path.name for disk in made] == ["disk", "disk.eph0", "disk.eph1", "disk.swap"]
    assert [disk.bus for disk in made] == ["", "", "scsi", "scsi"]
    assert [info(disk)["virtual-size"] for disk in made[1:3]] == [GIB, 2 * GIB]
    base = instances / "_base"
    assert {"TYPE=ext4", "LABEL=ephemeral0"} <= kind_of(base / "ephemeral_1_ext4.raw")
    assert {"TYPE=vfat", "LABEL=ephemeral1"} <= kind_of(base / "ephemeral_2_vfat_1.raw")
    write_to(made[2], "x")
    larger = replace(wanted, root_gib=2, swap_mib=16, swap_bus=None, ordered_at=ORDERED_AT.replace(year=2027))
    moved = resized(disks, larger)
    assert [disk.path.name for disk in moved] == [disk.path.name for disk in made]
    assert [disk.bus for disk in moved] == ["", "", "scsi", ""]
    assert [info(disk)["virtual-size"] for disk in moved[:3]] == [2 * GIB, GIB, 2 * GIB]
    assert has(moved[2], "x")
    rebuilt = disks.make(replace(larger, ordered_at=ORDERED_AT.replace(year=2028)))
    assert [disk.path.name for disk in rebuilt] == [disk.path.name for disk in made]
    assert not has(rebuilt[2], "x")


@pytest.mark.parametrize("umask", [0o022, 0o077])
def test_nobody_else_reads_disks_and_an_emulator_gets_to_them(
    disks_with: MakeDisks, service: RealImages, instances: Path, umask: int
) -> None:
    image = service.make("image-1", "qcow2")
    before = os.umask(umask)
    try:
        instances.mkdir(mode=0o700)
        disks_with().make(guest(image, swap_mib=1, config_drive=ConfigDrive("vm")))
    finally:
        os.umask(before)
    for path in [instances, *instances.rglob("*")]:
        assert stat.S_IMODE(path.stat().st_mode) == (0o711 if path.is_dir() else 0o600), path


def test_room_is_set_aside_where_the_operator_says_so(disks_with: MakeDisks, service: RealImages) -> None:
    image = service.make("image-1", "raw")
    for images_type in ("raw", "qcow2"):
        disks = disks_with(images_type=images_type, preallocate_images="space")
        (root,) = disks.make(guest(image, f"of-{images_type}", root_gib=0))
        assert root.path.stat().st_blocks * 512 >= 4 * MIB


def test_a_file_system_that_the_host_cannot_make_fails_and_names_the_option(
    disks_with: MakeDisks, service: RealImages, instances: Path
) -> None:
    disks = disks_with(default_ephemeral_format="ntfs")
    if any((Path(folder) / "mkfs.ntfs").exists() for folder in ("/usr/sbin", "/sbin")):
        pytest.fail("mkfs.ntfs is installed: choose a file system that is not")
    with pytest.raises(DriverError, match=r"ntfs.*\[DEFAULT\] default_ephemeral_format"):
        disks.make(guest(service.make("image-1", "raw"), ephemeral_gib=1))
    assert left(instances) == set()


# --- repetition and crashes -------------------------------------------------------------------------------------------


def test_disks_of_the_same_order_are_made_once(disks_with: MakeDisks, service: RealImages) -> None:
    image = service.make("image-1", "qcow2")
    disks = disks_with()
    (root,) = disks.make(guest(image))
    write_to(root, "x")
    assert disks.make(guest(image)) == (root,)
    assert has(root, "x")
    disks.make(guest(image, ordered_at=ORDERED_AT.replace(year=2027)))
    assert not has(root, "x")


def test_what_a_kill_has_left_half_made_is_made_anew(
    disks_with: MakeDisks, service: RealImages, instances: Path
) -> None:
    for half_made in ("g1.part", "g1.gone"):
        (instances / half_made).mkdir(parents=True)
        (instances / half_made / "disk").write_bytes(b"half")
    disks = disks_with()
    (root,) = disks.make(guest(service.make("image-1", "qcow2")))
    assert info(root)["virtual-size"] == GIB
    disks.remove("g1")
    disks.remove("g1")
    assert left(instances) == set()
    assert disks.present("g1") == ()


def test_twenty_guests_at_once_need_one_download_and_one_conversion(
    disks_with: MakeDisks, service: RealImages, instances: Path
) -> None:
    image = service.make("image-1", "qcow2", mib=64)
    agents = [disks_with() for _ in range(4)]  # they stand for several processes
    with ThreadPoolExecutor(20) as pool:
        made = list(pool.map(lambda number: agents[number % 4].make(guest(image, f"g{number}")), range(20)))
    assert len({info(root)["full-backing-filename"] for (root,) in made}) == 1
    assert service.asked == ["image-1"]
    assert [path.name.rpartition(".")[2] for path in (instances / "_base").iterdir()] == ["raw"]


# --- unusable images --------------------------------------------------------------------------------------------------


def test_a_damaged_download_is_not_used(disks_with: MakeDisks, service: RealImages, instances: Path) -> None:
    image = service.make("image-1", "qcow2")
    service.damage("image-1")
    with pytest.raises(ImageUnusable, match=r"bytes instead of|damaged"):
        disks_with().make(guest(image))
    assert left(instances) == set()
    assert list((instances / "_base").iterdir()) == []


def test_an_image_larger_than_the_root_disk_is_refused_with_both_sizes(
    disks_with: MakeDisks, service: RealImages, instances: Path
) -> None:
    image = service.make("image-1", "qcow2", mib=1025)
    disks = disks_with()
    with pytest.raises(ImageUnusable, match=f"1 GiB .{GIB} bytes.*image-1, {1025 * MIB} bytes"):
        disks.make(guest(image))
    assert left(instances) == set()
    assert not any(path.suffix == ".raw" for path in (instances / "_base").iterdir())
    disks.make(guest(image, root_gib=2))
    with pytest.raises(ImageUnusable):
        disks.make(guest(image, "g2"))


def test_a_raw_image_that_is_too_large_is_not_even_fetched(disks_with: MakeDisks, service: RealImages) -> None:
    image = replace(service.make("image-1", "raw"), size_bytes=GIB + 1)
    with pytest.raises(ImageUnusable, match=f"image-1, {GIB + 1} bytes"):
        disks_with().make(guest(image))
    assert service.asked == []


# --- moves and rescues ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("images_type", ["qcow2", "raw"])
def test_a_resize_copies_what_is_kept_and_can_go_back(
    disks_with: MakeDisks, service: RealImages, instances: Path, images_type: str
) -> None:
    image = service.make("image-1", "qcow2")
    disks = disks_with(images_type=images_type)
    linux = {"image_properties": {"os_type": "linux"}}
    first = disks.make(guest(image, ephemeral_gib=1, swap_mib=8, **linux))
    root = of_role(first, DiskRole.ROOT)
    write_to(root, "x")
    disks.keep("g1")
    disks.keep("g1")
    assert disks.kept() == {"g1"}
    assert disks.present("g1") == ()
    larger = guest(image, root_gib=3, ephemeral_gib=2, swap_mib=0, ordered_at=ORDERED_AT.replace(year=2027), **linux)
    made = disks.make_of_kept(larger)
    assert disks.make_of_kept(larger) == made
    assert [disk.role.value for disk in made] == ["root", "ephemeral"]
    assert [info(disk)["virtual-size"] for disk in made] == [3 * GIB, 2 * GIB]
    assert has(of_role(made, DiskRole.ROOT), "x")
    assert of_role(made, DiskRole.ROOT).path.stat().st_blocks * 512 < 16 * MIB
    write_to(root, "y")
    assert disks.take_back("g1") == first
    assert disks.take_back("g1") == first
    assert has(root, "x")
    assert info(root)["virtual-size"] == GIB
    disks.keep("g1")
    disks.make_of_kept(larger)
    disks.drop_kept("g1")
    assert disks.kept() == frozenset()
    assert has(root, "x")
    assert left(instances) == {"g1"}


def resized(disks: GuestDisks, described: GuestSpec) -> tuple[DiskFile, ...]:
    """Resize a guest's disks, and confirm the resize."""
    disks.keep(described.uuid)
    made = disks.make_of_kept(described)
    disks.drop_kept(described.uuid)
    return made


def test_no_disk_becomes_smaller(disks_with: MakeDisks, service: RealImages, instances: Path) -> None:
    image = service.make("image-1", "qcow2")
    disks = disks_with()
    (root,) = disks.make(guest(image, root_gib=3))
    with pytest.raises(UnsupportedGuest, match=f"root disk has {2 * GIB} bytes.* has {3 * GIB}"):
        resized(disks, guest(image, root_gib=2))
    assert left(instances) == {"g1_resize"}
    disks.take_back("g1")
    assert info(root)["virtual-size"] == 3 * GIB
    assert info(resized(disks, guest(image, root_gib=0))[0])["virtual-size"] == 3 * GIB
    assert info(resized(disks, guest(image, root_gib=5))[0])["virtual-size"] == 5 * GIB
    with pytest.raises(GuestMissing):
        disks.make_of_kept(guest(image, "nobody"))
    with pytest.raises(GuestMissing):
        disks.keep("nobody")


def test_a_resize_adds_and_takes_further_disks(disks_with: MakeDisks, service: RealImages) -> None:
    image = service.make("image-1", "qcow2")
    disks = disks_with(default_ephemeral_format="ext4")
    disks.make(guest(image))
    roles = [disk.role.value for disk in resized(disks, guest(image, ephemeral_gib=1, swap_mib=4))]
    assert roles == ["root", "ephemeral", "swap"]
    swap = of_role(resized(disks, guest(image, ephemeral_gib=1, swap_mib=6)), DiskRole.SWAP)
    assert swap.path.stat().st_size == 6 * MIB
    with pytest.raises(UnsupportedGuest, match="ephemeral"):
        resized(disks, guest(image))
    disks.take_back("g1")
    assert [disk.role.value for disk in resized(disks, guest(image, ephemeral_gib=1))] == ["root", "ephemeral"]
    assert not swap.path.exists()


def test_a_rescue_disk_is_made_of_another_image(disks_with: MakeDisks, service: RealImages, tmp_path: Path) -> None:
    disks = disks_with()
    own = disks.make(guest(service.make("image-1", "qcow2")))
    (rescue,) = disks.make_rescue(guest(None), service.make("image-2", "qcow2"))
    assert (rescue.role, rescue.path.name) == (DiskRole.RESCUE, "disk.rescue")
    assert start_of(rescue, tmp_path) == b"image-2"
    assert disks.present("g1") == own
    assert start_of(disks.make_rescue(guest(None), service.make("image-3", "qcow2"))[0], tmp_path) == b"image-3"
    disks.drop_rescue("g1")
    disks.drop_rescue("g1")
    assert not rescue.path.exists()
    assert disks.present("g1") == own


# --- image cache ------------------------------------------------------------------------------------------------------


def test_an_image_stays_as_long_as_a_disk_needs_it(disks_with: MakeDisks, service: RealImages, instances: Path) -> None:
    disks = disks_with(default_ephemeral_format="ext4")
    images = HostImages(instances / "_base", max_bytes=0, transfers=service, in_use=lambda: bases_in_use(instances))
    disks.make(guest(service.make("image-1", "qcow2"), ephemeral_gib=1))
    disks.keep("g1")

    def age() -> None:
        for base in (instances / "_base").iterdir():
            os.utime(base, (1, 1))

    age()
    assert images.forget_unused(100.0, 100.0) == ()
    disks.take_back("g1")
    images.fetch(service.make("image-2", "raw"))
    assert any(path.name.startswith("image-1") for path in (instances / "_base").iterdir())
    disks.remove("g1")
    age()
    assert [name.partition(".")[0] for name in sorted(images.forget_unused(100.0, 1e12))] == ["image-1", "image-2"]
    assert images.forget_unused(1e12, 100.0) == ("ephemeral_1_ext4.raw",)


def test_the_images_of_a_host_and_the_guests_that_need_them(disks_with: MakeDisks, service: RealImages) -> None:
    disks = disks_with(default_ephemeral_format="ext4")
    one, two = service.make("one", "qcow2", mib=64), service.make("two", "raw")
    disks.make(guest(one, "g1", ephemeral_gib=1))
    disks.make(guest(one, "g2"))
    disks.keep("g2")
    with disks.bases.use(two):
        pass
    ephemeral, first, second = disks.cached_images()
    assert (ephemeral.name, ephemeral.image_id, ephemeral.guests) == ("ephemeral_1_ext4.raw", "", ("g1",))
    assert (first.image_id, first.disk_format, first.guests) == ("one", "raw", ("g1", "g2"))
    assert first.size_bytes < MIB
    assert (second.image_id, second.guests) == ("two", ())
