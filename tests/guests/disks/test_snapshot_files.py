# SPDX-License-Identifier: Apache-2.0
"""Snapshots of guests' disks as image files."""

import json
from pathlib import Path

import pytest

from kilonova.compute.files.images import HostImages
from kilonova.compute.virt.libvirt.disks.guest_disks import GuestDisks
from kilonova.compute.virt.libvirt.disks.snapshot_files import SnapshotFiles
from kilonova.compute.virt.libvirt.domain.description import DiskFile, DiskRole
from kilonova.config.libvirt import LibvirtSettings
from kilonova.errors import DriverError, SnapshotCancelled
from kilonova.model.instance import GuestSpec
from support.real_images import MIB, RealImages, qemu_img


@pytest.fixture
def files(tmp_path: Path) -> SnapshotFiles:
    return SnapshotFiles(tmp_path / "snapshots")


@pytest.fixture
def root(tmp_path: Path) -> DiskFile:
    service = RealImages(tmp_path / "service")
    images = HostImages(tmp_path / "_base", max_bytes=1 << 40, transfers=service)
    image = service.make("image-1", "qcow2", mib=5)
    return GuestDisks(tmp_path, images, LibvirtSettings()).make(
        GuestSpec(uuid="g1", name="g1", hostname="g1", vcpus=1, memory_mib=64, root_gib=0, image=image)
    )[0]


def nothing() -> None:
    pass


def copies(tmp_path: Path) -> list[str]:
    return sorted(path.name for path in (tmp_path / "snapshots").iterdir())


@pytest.mark.parametrize(
    ("disk_format", "qemu_format"),
    [
        ("qcow2", "qcow2"),
        ("", "qcow2"),
        ("raw", "raw"),
        ("ami", "raw"),
        ("vmdk", "vmdk"),
        ("vdi", "vdi"),
        ("vhd", "vpc"),
    ],
)
def test_a_copy_is_whole_and_of_the_format_of_the_image(
    files: SnapshotFiles, root: DiskFile, tmp_path: Path, disk_format: str, qemu_format: str
) -> None:
    files.copy_for_image("g1", "i1", root, nothing, disk_format=disk_format)
    copy = files.for_upload("g1", "i1", nothing, disk_format=disk_format)
    known = json.loads(qemu_img("info", "--output=json", "-f", qemu_format, copy))
    assert "backing-filename" not in known
    assert known["virtual-size"] == 5 * MIB
    qemu_img("convert", "-f", qemu_format, "-O", "raw", copy, tmp_path / "raw")
    assert (tmp_path / "raw").read_bytes().startswith(b"image-1")
    copy.write_bytes(b"first")
    files.copy_for_image("g1", "i1", root, nothing, disk_format=disk_format)
    assert copy.read_bytes() == b"first"


def test_a_copy_is_converted_where_the_image_is_to_have_another_format(
    files: SnapshotFiles, root: DiskFile, tmp_path: Path
) -> None:
    files.copy_for_image("g1", "i1", root, nothing)
    copy = files.for_upload("g1", "i1", nothing, disk_format="raw")
    assert copy.read_bytes().startswith(b"image-1")
    assert copies(tmp_path) == ["g1.i1.raw"]
    assert files.for_upload("g1", "i1", nothing, disk_format="raw") == copy
    with pytest.raises(DriverError, match="docker"):
        files.for_upload("g1", "i1", nothing, disk_format="docker")


def test_what_the_hypervisor_has_copied_becomes_the_copy(files: SnapshotFiles, root: DiskFile, tmp_path: Path) -> None:
    for disk_format in ("qcow2", "raw"):
        with files.scratch("g1") as scratch:
            qemu_img("convert", "-O", "qcow2", root.path, scratch)
            files.copy_for_image(
                "g1", f"i-{disk_format}", DiskFile(DiskRole.ROOT, scratch, "qcow2"), nothing, disk_format=disk_format
            )
        assert copies(tmp_path) == [f"g1.i-{disk_format}.{disk_format}"]


def test_a_copy_that_is_given_up_leaves_nothing(files: SnapshotFiles, root: DiskFile, tmp_path: Path) -> None:
    def cancelled() -> None:
        raise SnapshotCancelled

    with pytest.raises(SnapshotCancelled):
        files.copy_for_image("g1", "i1", root, cancelled, disk_format="raw")
    assert copies(tmp_path) == []


def test_what_was_brought_is_remembered_and_dropped(files: SnapshotFiles, root: DiskFile, tmp_path: Path) -> None:
    files.copy_for_image("g1", "i1", root, nothing)
    assert files.is_done("g1", "i1")
    files.note_brought("g1", "i1")
    files.note_brought("g1", "i1")
    assert files.has_brought("g1", "i1")
    assert copies(tmp_path) == ["g1.i1.brought"]
    files.copy_for_image("g1", "i1", root, nothing)
    assert copies(tmp_path) == ["g1.i1.brought"]
    with pytest.raises(DriverError, match="no snapshot of guest g1 for image i1"):
        files.for_upload("g1", "i1", nothing)
    files.discard("g1")
    files.discard("g1")
    assert copies(tmp_path) == []
