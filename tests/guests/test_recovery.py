# SPDX-License-Identifier: Apache-2.0
"""Real guests outlive whatever happens to libvirtd, to their host and to themselves, and their servers show it."""

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import libvirt
import pytest

from support.libvirt_node import LibvirtNode
from support.real_cloud import IGNORES, OBEYS, RealCloud, real_cloud
from support.samples import sampled
from support.waiting import wait_until


@pytest.fixture
def cloud(libvirt_node: LibvirtNode, sqlite_template: Path, tmp_path: Path) -> Iterator[RealCloud]:
    with real_cloud(libvirt_node, sqlite_template, tmp_path) as made:
        yield made


def test_what_a_guest_does_by_itself_is_seen_within_seconds(cloud: RealCloud) -> None:
    cloud.start("sync_power_state_interval = -1\n")
    cloud.control.add_flavor(ram=64)
    off, killed, paused, gone = (cloud.boot(name) for name in ("off", "killed", "paused", "gone"))
    began = time.monotonic()
    cloud.domain(off).sendKey(libvirt.VIR_KEYCODE_SET_LINUX, 50, [16], 1, 0)  # q: it powers itself off
    cloud.until(off, "SHUTOFF")
    took = time.monotonic() - began
    cloud.domain(killed).destroy()
    cloud.until(killed, "SHUTOFF")
    cloud.domain(paused).suspend()
    wait_until(lambda: cloud.server(paused)["OS-EXT-STS:power_state"] == 3, "it to be seen paused")
    assert cloud.server(paused)["status"] == "ACTIVE"  # as in Nova: somebody at the host knows why
    domain = cloud.domain(gone)
    domain.destroy()
    domain.undefine()
    wait_until(lambda: cloud.server(gone)["OS-EXT-STS:power_state"] in {0, 4}, "it to be seen gone")
    assert took < 5
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
    cloud.until(uuid, "SHUTOFF")  # what no event has told, the next report does
    domain.undefine()
    cloud.act(uuid, "reboot", type="HARD")
    cloud.until(uuid, "ACTIVE")
    cloud.until_booted(uuid, 2)
    cloud.remove(uuid)
    assert cloud.left() == []


@pytest.mark.parametrize("resumes", [False, True])
def test_a_host_that_was_rebooted(cloud: RealCloud, *, resumes: bool) -> None:
    cloud.start(f"resume_guests_state_on_host_boot = {resumes}\n")
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
    cloud.until(was_off, "SHUTOFF")
    if resumes:
        cloud.until_booted(ran, 2)
        cloud.until(ran, "ACTIVE")
        cloud.until_booted(lost, 2)
        cloud.until(lost, "ACTIVE")
    else:
        cloud.until(ran, "SHUTOFF")
        cloud.act(lost, "reboot", type="HARD")
        cloud.until(lost, "ACTIVE")
        cloud.until_booted(lost, 2)
    cloud.act(was_off, "os-start")
    cloud.until_booted(was_off, 2)
    cloud.until(was_off, "ACTIVE")
    cloud.remove(ran, was_off, lost)
    assert cloud.left() == []


@pytest.mark.parametrize("action", ["none", "build", "os-stop", "reboot", "os-start", "createImage", "rebuild", "resize"])
def test_libvirtd_is_killed_meanwhile(cloud: RealCloud, action: str) -> None:
    """...and starts again: other guests go on, and what was under way ends well or says why not."""
    cloud.start("allow_resize_to_same_host = true\nshutdown_timeout = 5\n")
    cloud.control.add_flavor(ram=64)
    cloud.control.add_flavor("2", ram=96, disk=2)
    other, subject = cloud.boot("other"), cloud.boot("subject")
    other_process = cloud.node.guests()[cloud.server_name(other)]
    if action == "os-start":
        cloud.act(subject, "os-stop")
        cloud.until(subject, "SHUTOFF")
    match action:
        case "none":
            pass
        case "build":
            cloud.remove(subject)
            subject = cloud.ask()
        case "reboot":
            cloud.act(subject, "reboot", type="SOFT")
        case "createImage":
            cloud.act(subject, "createImage", name="copy")
        case "rebuild":
            cloud.act(subject, "rebuild", imageRef=OBEYS)
        case "resize":
            cloud.act(subject, "resize", flavorRef="2")
        case _:
            cloud.act(subject, action)
    time.sleep(0.15)  # somewhere on the way
    cloud.node.kill()
    assert cloud.node.guests()[cloud.server_name(other)] == other_process
    cloud.node.start()
    wait_until(lambda: cloud.server(subject)["OS-EXT-STS:task_state"] is None, "it to be settled", at_most_s=60)
    seen = cloud.server(subject)
    print(action, seen["status"], seen.get("fault"))
    assert seen["status"] in {"ACTIVE", "SHUTOFF", "VERIFY_RESIZE", "ERROR"}, seen
    assert cloud.server(other)["status"] == "ACTIVE"
    assert cloud.node.guests()[cloud.server_name(other)] == other_process
    assert cloud.boots(other) == 1
    cloud.remove(subject)
    assert set(cloud.left()) == {other, cloud.server_name(other)}
    cloud.domain(other).sendKey(libvirt.VIR_KEYCODE_SET_LINUX, 50, [16], 1, 0)  # q
    cloud.until(other, "SHUTOFF")  # events come again
    cloud.remove(other)
    assert cloud.left() == []


def test_a_frozen_libvirtd_keeps_nobody_else_waiting(cloud: RealCloud) -> None:
    cloud.start(scenario="hosts: [{name: simulated, vcpus: 8, memory_mib: 8192}]\n")
    cloud.control.add_flavor(ram=64)
    uuid = cloud.boot(host="node1")
    os.kill(cloud.node.pid, signal.SIGSTOP)
    try:
        cloud.act(uuid, "os-stop")
        built = cloud.ask(host="node1")
        until = time.monotonic() + sampled(30.0, sample=4.0)  # longer than keep-alive messages take to find it
        longest = 0.0
        while time.monotonic() < until:
            began = time.monotonic()
            assert cloud.user.get("/servers/detail").status == 200
            elsewhere = cloud.ask(host="simulated")
            cloud.until(elsewhere, "ACTIVE", at_most_s=10)
            cloud.remove(elsewhere)
            longest = max(longest, time.monotonic() - began)
            time.sleep(0.5)
        print("longest", longest)
        assert longest < 5
    finally:
        os.kill(cloud.node.pid, signal.SIGCONT)
    for each in (uuid, built):
        wait_until(lambda each=each: cloud.server(each)["OS-EXT-STS:task_state"] is None, "settled", at_most_s=90)
        print(cloud.server(each)["status"], cloud.server(each).get("fault"))
    again = cloud.boot("again", host="node1")
    cloud.remove(uuid, built, again)
    assert cloud.left() == []
