# SPDX-License-Identifier: Apache-2.0
"""Malicious images that an attacker uploads to harm the host."""

import os
import struct
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from kilonova.compute.files.images import HostImages
from kilonova.compute.virt.libvirt.disks.guest_disks import GuestDisks
from kilonova.config.libvirt import LibvirtSettings
from kilonova.errors import ImageUnusable
from kilonova.model.image_data import ImageData
from kilonova.model.instance import GuestSpec
from support.real_images import MIB, RealImages, qemu_img

Attempt = Callable[..., None]


@pytest.fixture
def service(tmp_path: Path) -> RealImages:
    return RealImages(tmp_path / "service")


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    """File of the host that no guest may read."""
    file = tmp_path / "secret"
    file.write_bytes(b"secret".ljust(MIB, b"."))
    return file


@pytest.fixture
def refused(tmp_path: Path) -> Attempt:
    """Spawn a guest of an image; the spawn must fail and leave nothing behind."""

    def attempt(service: RealImages, image: ImageData, reason: str, *, root_gib: int = 1, raw: bool = True) -> None:
        instances = tmp_path / "instances"
        images = HostImages(instances / "_base", max_bytes=1 << 40, transfers=service)
        disks = GuestDisks(instances, images, LibvirtSettings(force_raw_images=raw))
        with pytest.raises(ImageUnusable, match=reason) as raised:
            disks.make(
                GuestSpec(uuid="g1", name="g1", hostname="g1", vcpus=1, memory_mib=64, root_gib=root_gib, image=image)
            )
        assert "secret" not in raised.value.message
        assert {path.name for path in instances.iterdir()} <= {"_base"}
        assert not any(path.name.endswith((".raw", ".qcow2", ".part")) for path in (instances / "_base").iterdir())

    return attempt


@pytest.mark.parametrize("raw", [True, False])
def test_a_backing_file(refused: Attempt, service: RealImages, tmp_path: Path, secret: Path, raw: bool) -> None:
    qemu_img("create", "-f", "qcow2", "-F", "raw", "-b", secret, tmp_path / "evil")
    refused(service, service.add("evil", tmp_path / "evil", "qcow2"), "[Bb]acking file|backing_file", raw=raw)


@pytest.mark.parametrize("raw", [True, False])
def test_a_data_file(refused: Attempt, service: RealImages, tmp_path: Path, secret: Path, raw: bool) -> None:
    qemu_img("create", "-f", "qcow2", "-o", f"data_file={secret},data_file_raw=on", tmp_path / "evil", str(MIB))
    refused(service, service.add("evil", tmp_path / "evil", "qcow2"), "data_file", raw=raw)


@pytest.mark.parametrize(
    ("found", "declared"),
    [("qcow2", "raw"), ("vmdk", "raw"), ("raw", "qcow2"), ("qcow2", "iso"), ("vdi", "qcow2"), ("qcow2", "vhd")],
)
def test_another_format_than_the_declared_one(
    refused: Attempt, service: RealImages, tmp_path: Path, found: str, declared: str
) -> None:
    made = service.make("evil", found)
    image = replace(made, disk_format=declared)
    refused(service, image, f"the disk_format is {declared}, but the data is {found}")


@pytest.mark.parametrize("declared", ["ami", ""])
def test_a_format_that_nobody_has_declared_is_looked_for(service: RealImages, tmp_path: Path, declared: str) -> None:
    made = service.make("image-1", "qcow2")
    image = replace(made, disk_format=declared)
    images = HostImages(tmp_path / "_base", max_bytes=1 << 40, transfers=service)
    (root,) = GuestDisks(tmp_path, images, LibvirtSettings()).make(
        GuestSpec(uuid="g1", name="g1", hostname="g1", vcpus=1, memory_mib=64, root_gib=1, image=image)
    )
    assert "raw" in qemu_img("info", "-f", "qcow2", root.path)


@pytest.mark.parametrize("declared", ["aki", "ari", "ploop", "docker"])
def test_a_format_that_is_no_disk(refused: Attempt, service: RealImages, tmp_path: Path, declared: str) -> None:
    (tmp_path / "evil").write_bytes(b"x" * 512)
    refused(service, service.add("evil", tmp_path / "evil", declared), f"{declared} are not supported")


def test_a_vmdk_with_its_data_in_another_file(refused: Attempt, service: RealImages, tmp_path: Path) -> None:
    qemu_img("create", "-f", "vmdk", "-o", "subformat=monolithicFlat", tmp_path / "evil.vmdk", str(MIB))
    refused(service, service.add("evil", tmp_path / "evil.vmdk", "vmdk"), "Unsupported subformat")


def test_a_vmdk_that_looks_whole_and_names_another_file(
    refused: Attempt, service: RealImages, tmp_path: Path, secret: Path
) -> None:
    file = tmp_path / "evil.vmdk"
    qemu_img("create", "-f", "vmdk", "-o", "subformat=monolithicSparse", file, str(MIB))
    data = file.read_bytes()
    start = data.index(b"# Disk DescriptorFile")
    end = data.index(b"\0", start)
    text = data[start:end].replace(b"monolithicSparse", b"monolithicFlat")
    lines = [f'RW 2048 FLAT "{secret}" 0'.encode() if b"SPARSE" in line else line for line in text.split(b"\n")]
    changed = b"\n".join(lines)
    room = 20 * 512
    file.write_bytes(data[:start] + changed.ljust(room, b"\0") + data[start + room :])
    refused(service, service.add("evil", file, "vmdk"), "not safe|cannot be read|vmdk_allowed_types|other files")


def test_a_kind_of_vmdk_that_the_operator_does_not_allow(service: RealImages, tmp_path: Path) -> None:
    images = HostImages(tmp_path / "_base", max_bytes=1 << 40, transfers=service)
    disks = GuestDisks(tmp_path, images, LibvirtSettings(vmdk_allowed_types=("monolithicSparse",)))
    stream = service.make("stream", "vmdk", options=("-o", "subformat=streamOptimized"))
    with pytest.raises(ImageUnusable, match="does not allow VMDK images of the type streamOptimized"):
        disks.make(GuestSpec(uuid="g1", name="g1", hostname="g1", vcpus=1, memory_mib=64, root_gib=1, image=stream))
    disks.make(
        GuestSpec(
            uuid="g1",
            name="g1",
            hostname="g1",
            vcpus=1,
            memory_mib=64,
            root_gib=1,
            image=service.make("sparse", "vmdk"),
        )
    )
    allowed = GuestDisks(tmp_path, images, LibvirtSettings())
    allowed.make(GuestSpec(uuid="g2", name="g2", hostname="g2", vcpus=1, memory_mib=64, root_gib=1, image=stream))


def test_an_encrypted_image(refused: Attempt, service: RealImages, tmp_path: Path) -> None:
    luks = struct.pack(">6sH32s32s32sII", b"LUKS\xba\xbe", 1, b"aes", b"xts-plain64", b"sha256", 8, 64)
    (tmp_path / "luks").write_bytes(luks.ljust(MIB, b"\0"))
    refused(service, service.add("evil", tmp_path / "luks", "raw"), "but the data is luks")
    qemu_img("create", "-f", "qcow2", tmp_path / "qcow2", str(MIB))
    with (tmp_path / "qcow2").open("r+b") as file:
        file.seek(32)  # offset of the encryption method in the qcow2 header
        file.write(struct.pack(">I", 1))
    refused(service, service.add("evil-2", tmp_path / "qcow2", "qcow2"), "it is encrypted")


def test_internal_snapshots(refused: Attempt, service: RealImages, tmp_path: Path) -> None:
    qemu_img("create", "-f", "qcow2", tmp_path / "evil", str(MIB))
    qemu_img("snapshot", "-c", "inside", tmp_path / "evil")
    refused(service, service.add("evil", tmp_path / "evil", "qcow2"), "internal snapshots")


@pytest.mark.parametrize(
    ("root_gib", "reason"), [(1, "less than the virtual size"), (0, "the host's file system for images")]
)
def test_a_disk_of_an_exbibyte(
    refused: Attempt, service: RealImages, tmp_path: Path, root_gib: int, reason: str
) -> None:
    qemu_img("create", "-f", "qcow2", "-o", "cluster_size=2M", tmp_path / "evil", str(1 << 60))
    refused(service, service.add("evil", tmp_path / "evil", "qcow2"), reason, root_gib=root_gib)


def test_noise_behind_a_header(refused: Attempt, service: RealImages, tmp_path: Path) -> None:
    qemu_img("create", "-f", "qcow2", tmp_path / "evil", str(MIB))
    with (tmp_path / "evil").open("r+b") as file:
        file.seek(36)
        file.write(os.urandom(3000))
    refused(service, service.add("evil", tmp_path / "evil", "qcow2"), "evil cannot be used")


def test_a_disk_with_partitions_is_raw(service: RealImages, tmp_path: Path) -> None:
    disk = tmp_path / "partitions"
    disk.write_bytes(bytes(8 * MIB))
    table = bytes([0x80, 0x00, 0x02, 0x00, 0xEE, 0xFF, 0xFF, 0xFF, 1, 0, 0, 0, 0xFF, 0x3F, 0, 0])
    with disk.open("r+b") as file:
        file.seek(446)
        file.write(bytes([0, *table[1:]]))
        file.seek(510)
        file.write(b"\x55\xaa")
    images = HostImages(tmp_path / "_base", max_bytes=1 << 40, transfers=service)
    image = service.add("image-1", disk, "raw")
    GuestDisks(tmp_path, images, LibvirtSettings()).make(
        GuestSpec(uuid="g1", name="g1", hostname="g1", vcpus=1, memory_mib=64, root_gib=1, image=image)
    )
