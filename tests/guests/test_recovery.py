# SPDX-License-Identifier: Apache-2.0
"""Recovery of real guests and their servers' states after failures of libvirtd, the host and the guests."""

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.libvirt_node import LibvirtNode
from support.real_cloud import HOST, IGNORES, OBEYS, RealCloud, real_cloud
from support.samples import IS_WHOLE, sampled
from support.waiting import wait_until

EVERYTHING_S = 60.0
#: Action → status of the server after it.
AFTER = {
    "build": "ACTIVE",
    "os-stop": "SHUTOFF",
    "os-start": "ACTIVE",
    "reboot": "ACTIVE",
    "createImage": "ACTIVE",
    "rebuild": "ACTIVE",
    "resize": "VERIFY_RESIZE",
}


@pytest.fixture
def cloud(libvirt_node: LibvirtNode, sqlite_template: Path, tmp_path: Path) -> Iterator[RealCloud]:
    with real_cloud(libvirt_node, sqlite_template, tmp_path) as made:
        yield made


def test_what_happens_to_a_guest_is_seen_within_seconds(cloud: RealCloud) -> None:
    cloud.start("sync_power_state_interval = -1\n")
    cloud.control.add_flavor(ram=64)
    asked = [cloud.ask(name) for name in ("off", "killed", "paused", "gone")]
    off, killed, paused, gone = asked
    for uuid in asked:
        cloud.until_booted(uuid, 1)
        cloud.until(uuid, "ACTIVE")
    began = time.monotonic()
    cloud.press_q(off)
    cloud.until(off, "SHUTOFF")
    took = time.monotonic() - began
    cloud.domain(killed).destroy()
    cloud.until(killed, "SHUTOFF")
    cloud.domain(paused).suspend()
    wait_until(lambda: cloud.server(paused)["OS-EXT-STS:power_state"] == 3, "the server to show the power state paused")
    assert cloud.server(paused)["status"] == "ACTIVE"  # as in Nova: a pause at the host is assumed to be intended
    domain = cloud.domain(gone)
    domain.destroy()
    domain.undefine()
    wait_until(
        lambda: cloud.server(gone)["OS-EXT-STS:power_state"] in {0, 4}, "the server to show that its guest is gone"
    )
    assert took < sampled(2, sample=8)
    cloud.act(off, "os-start")
    cloud.until(off, "ACTIVE")
    cloud.until_booted(off, 2)
    cloud.remove(off, killed, paused, gone)
    assert cloud.left() == []


def test_a_guest_that_somebody_undefined_is_made_again_of_its_own_disk(cloud: RealCloud) -> None:
    cloud.start("sync_power_state_interval = 1\n[workarounds]\nhandle_virt_lifecycle_events = false\n")
    cloud.control.add_flavor(ram=64)
    uuid = cloud.boot()
    domain = cloud.domain(uuid)
    domain.destroy()
    cloud.until(uuid, "SHUTOFF")  # events are disabled, so the next host report changes the status
    domain.undefine()
    cloud.act(uuid, "reboot", type="HARD")
    cloud.until(uuid, "ACTIVE")
    cloud.until_booted(uuid, 2)
    cloud.remove(uuid)
    assert cloud.left() == []


@pytest.mark.parametrize("resumes", [False, True])
def test_a_host_that_was_rebooted(cloud: RealCloud, *, resumes: bool) -> None:
    """All guests are off, and libvirt has lost the definition of one of them."""
    cloud.start()
    cloud.control.add_flavor(ram=64)
    ran, was_off, lost = cloud.boot("ran"), cloud.boot("off"), cloud.boot("lost", IGNORES)
    cloud.act(was_off, "os-stop")
    cloud.until(was_off, "SHUTOFF")
    cloud.stop()
    cloud.node.kill()
    cloud.node.end_guests()
    (cloud.node.folder / "etc" / "qemu" / f"{cloud.server_name(lost)}.xml").unlink()
    cloud.node.start()
    cloud.start(f"resume_guests_state_on_host_boot = {resumes}\n")
    if resumes:
        cloud.until_booted(ran, 2)
    cloud.until(ran, "ACTIVE" if resumes else "SHUTOFF")
    assert cloud.boots(ran) == (2 if resumes else 1)
    cloud.until(was_off, "SHUTOFF")
    cloud.act(lost, "reboot", type="HARD")
    cloud.act(was_off, "os-start")
    for uuid in (lost, was_off):
        cloud.until(uuid, "ACTIVE")
        cloud.until_booted(uuid, 2)
    cloud.remove(ran, was_off, lost)
    assert cloud.left() == []


@pytest.mark.parametrize("action", [*AFTER] if IS_WHOLE else ["build", "reboot"])
def test_libvirtd_is_killed_and_starts_again_meanwhile(cloud: RealCloud, action: str) -> None:
    cloud.start("allow_resize_to_same_host = true\nshutdown_timeout = 5\n")
    cloud.control.add_flavor(ram=64)
    cloud.control.add_flavor("2", ram=96, disk=2)
    other = cloud.boot("other")
    process = cloud.node.guests()[cloud.server_name(other)]
    subject = cloud.ask() if action == "build" else cloud.boot("subject")
    match action:
        case "os-start":
            cloud.act(subject, "os-stop")
            cloud.until(subject, "SHUTOFF")
            cloud.act(subject, "os-start")
        case "reboot":
            cloud.act(subject, "reboot", type="SOFT")
        case "createImage":
            cloud.act(subject, "createImage", name="copy")
        case "rebuild":
            cloud.act(subject, "rebuild", imageRef=OBEYS)
        case "resize":
            cloud.act(subject, "resize", flavorRef="2")
        case "os-stop":
            cloud.act(subject, "os-stop")
    time.sleep(0.15)  # libvirtd is killed in the middle of the action
    cloud.node.kill()
    assert cloud.node.guests()[cloud.server_name(other)] == process
    assert cloud.server(other)["status"] == "ACTIVE"
    cloud.node.start()
    cloud.until(subject, AFTER[action], at_most_s=EVERYTHING_S)
    assert (cloud.node.guests()[cloud.server_name(other)], cloud.boots(other)) == (process, 1)
    cloud.remove(subject)
    assert set(cloud.left()) == {other, cloud.server_name(other)}
    cloud.press_q(other)
    cloud.until(other, "SHUTOFF")  # shows that events arrive again
    cloud.remove(other)
    assert cloud.left() == []


def test_a_frozen_libvirtd_keeps_nobody_else_waiting(cloud: RealCloud) -> None:
    """The host resumes when libvirtd resumes, even after keep-alive messages have declared the connection dead."""
    cloud.start(scenario="hosts: [{name: simulated, vcpus: 8, memory_mib: 8192}]\n")
    cloud.control.add_flavor(ram=64)
    stopped = cloud.boot(host=HOST)
    os.kill(cloud.node.pid, signal.SIGSTOP)
    try:
        cloud.act(stopped, "os-stop")
        built = cloud.ask(host=HOST)
        until, longest = time.monotonic() + sampled(40, sample=4), 0.0
        while time.monotonic() < until:
            began = time.monotonic()
            assert cloud.user.get("/servers/detail").status == 200
            elsewhere = cloud.ask(host="simulated")
            cloud.until(elsewhere, "ACTIVE", at_most_s=10)
            cloud.remove(elsewhere)
            longest = max(longest, time.monotonic() - began)
            time.sleep(0.5)
    finally:
        os.kill(cloud.node.pid, signal.SIGCONT)
    assert longest < 5, longest
    cloud.until(stopped, "SHUTOFF", at_most_s=2 * EVERYTHING_S)
    cloud.until(built, "ACTIVE", at_most_s=2 * EVERYTHING_S)
    cloud.remove(stopped, built)
    assert cloud.left() == []
