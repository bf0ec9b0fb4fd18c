# SPDX-License-Identifier: Apache-2.0
"""Kills of agents while they create disks, and other agents that continue on the same folder."""

import subprocess
import sys
import time
from pathlib import Path
from random import Random

import pytest

from kilonova.compute.files.images import HostImages
from kilonova.compute.virt.libvirt.disks.disk_records import bases_in_use
from kilonova.compute.virt.libvirt.disks.guest_disks import GuestDisks
from kilonova.config.libvirt import LibvirtSettings
from kilonova.model.image_data import ImageData
from kilonova.model.instance import GuestSpec
from support.real_images import MIB, RealImages, qemu_img

_AGENT = """
import sys
from pathlib import Path
from guests.test_killed_while_disks_are_made import disks_in, guests
disks = disks_in(Path(sys.argv[1]))
print("ready", flush=True)
for guest in guests(sys.argv[2]):
    disks.make(guest)
    print(guest.uuid, flush=True)
"""
IMAGES = ("one", "two")


class CountedImages(RealImages):
    """Image service that records every download of all processes in a file."""

    def download(self, image: ImageData, start: int, *, verify: bool | str):  # type: ignore[no-untyped-def] # noqa: ANN201
        with (self._folder / "asked").open("a") as file:
            file.write(f"{image.image_id}\n")
        return super().download(image, start, verify=verify)


def disks_in(place: Path) -> GuestDisks:
    instances = place / "instances"
    images = HostImages(
        instances / "_base", max_bytes=1 << 40, transfers=CountedImages(place / "service"),
        in_use=lambda: bases_in_use(instances),
    )  # fmt: skip
    return GuestDisks(instances, images, LibvirtSettings(default_ephemeral_format="ext4"))


def guests(prefix: str) -> list[GuestSpec]:
    found = []
    for number in range(6):
        name = f"{prefix}{number}"
        image = ImageData(IMAGES[number % 2], disk_format="qcow2")
        found.append(
            GuestSpec(
                uuid=name,
                name=name,
                hostname=name,
                vcpus=1,
                memory_mib=64,
                root_gib=1,
                ephemeral_gib=1,
                swap_mib=2,
                image=image,
            )
        )
    return found


@pytest.fixture
def place(tmp_path: Path) -> Path:
    service = CountedImages(tmp_path / "service")
    for image_id in IMAGES:
        service.make(image_id, "qcow2", mib=64)
    return tmp_path


def start(place: Path, prefix: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-c", _AGENT, str(place), prefix], stdout=subprocess.PIPE, text=True,
        env={"PYTHONPATH": ":".join(sys.path), "PATH": "/usr/sbin:/usr/bin:/sbin:/bin"},
    )  # fmt: skip


def test_several_agents_fetch_each_image_once(place: Path) -> None:
    agents = [start(place, prefix) for prefix in "abc"]
    for agent in agents:
        assert agent.communicate(timeout=60)[0].count("\n") == 7
        assert agent.returncode == 0
    assert sorted((place / "service" / "asked").read_text().split()) == ["one", "two"]


def test_what_a_killed_agent_leaves_is_whole_or_made_anew(place: Path) -> None:
    rng = Random(5)
    for _ in range(6):
        with start(place, "a") as agent:
            assert agent.stdout is not None
            assert agent.stdout.readline() == "ready\n"
            time.sleep(rng.uniform(0, 0.25))
            agent.kill()
    disks = disks_in(place)
    for guest in guests("a"):
        for made in (disks.present(guest.uuid), disks.make(guest)):
            assert len(made) in {0, 3}
            for disk in made:
                assert "virtual size" in qemu_img("info", "-f", disk.format, disk.path)
        assert len(disks.present(guest.uuid)) == 3
    for guest in guests("a"):
        disks.remove(guest.uuid)
    assert [path.name for path in (place / "instances").iterdir()] == ["_base"]
    kept = [path for path in (place / "instances" / "_base").iterdir() if path.suffix == ".raw"]
    assert len(kept) == 3
    assert all(path.stat().st_size >= 64 * MIB for path in kept)
