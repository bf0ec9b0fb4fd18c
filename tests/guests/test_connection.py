# SPDX-License-Identifier: Apache-2.0
"""Connection to a libvirtd that is killed, frozen or absent, and domains of other owners."""

import os
import signal
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime

import pytest

from kilonova.compute.virt.libvirt.connection import Connection, explained
from kilonova.compute.virt.libvirt.domain.marks import GuestMark
from kilonova.compute.virt.libvirt.domains import Domains
from kilonova.errors import DriverError, GuestMissing, HypervisorAway
from kilonova.identifiers import new_uuid
from kilonova.model.instance import PowerState
from support.libvirt_node import LibvirtNode
from support.waiting import wait_until

AT = datetime(2026, 1, 2, 3, 4, 5)  # noqa: DTZ001


class Watched:
    """Connection that records its events."""

    def __init__(self, uri: str) -> None:
        self.events: list[tuple[str, int]] = []
        self.opened = 0
        self.connection = Connection(uri, lambda uuid, event: self.events.append((uuid, event)), self._opened)
        self.domains = Domains(self.connection)

    def _opened(self) -> None:
        self.opened += 1


@pytest.fixture
def watched(libvirt_node: LibvirtNode) -> Iterator[Watched]:
    made = Watched(libvirt_node.uri)
    yield made
    for domain in made.domains.all():
        domain.undefine()
    made.connection.close()


def xml_of(mark: str, uuid: str, name: str = "instance-1") -> str:
    return (
        f"<domain type='qemu'><name>{name}</name><uuid>{uuid}</uuid><metadata>{mark}</metadata>"
        "<memory unit='MiB'>16</memory><os><type arch='x86_64' machine='pc'>hvm</type></os>"
        "<devices><controller type='usb' model='none'/></devices></domain>"
    )


def test_what_libvirt_does_not_know_is_refused_beside_guests_that_it_knows(watched: Watched) -> None:
    marks = [GuestMark(new_uuid(), AT) for _ in range(3)]
    for number, mark in enumerate(marks[:2]):
        watched.domains.define(xml_of(mark.xml(), mark.uuid, f"instance-{number}").replace("'", '"'), mark)
    wrong = xml_of(marks[2].xml(), marks[2].uuid).replace("'", '"').replace("<devices>", "<devices><teapot/>")
    with pytest.raises(DriverError):
        watched.domains.define(wrong, marks[2])
    assert watched.domains.states().keys() == {mark.uuid for mark in marks[:2]}


def test_a_guest_is_found_by_its_mark_alone(watched: Watched) -> None:
    mark, stranger, copied = GuestMark(new_uuid(), AT), new_uuid(), new_uuid()
    handles = [
        watched.connection.use().defineXML(xml_of("", stranger, "instance-2")),
        watched.connection.use().defineXML(
            xml_of(mark.xml(), copied, "instance-3")
        ),  # virt-clone copies the mark to another domain like this
    ]
    try:
        ours = watched.domains.define(xml_of(mark.xml(), mark.uuid), mark)
        assert watched.domains.states() == {mark.uuid: PowerState.SHUTDOWN}
        assert [each.mark for each in watched.domains.all()] == [mark]
        for uuid in (stranger, copied):
            assert watched.domains.find(uuid) is None
            with pytest.raises(GuestMissing):
                watched.domains.get(uuid)
            with pytest.raises(DriverError, match="was not created by Kilonova"):
                watched.domains.define(xml_of(mark.xml(), uuid), GuestMark(uuid, AT))
        with pytest.raises(DriverError, match="another guest with the name instance-2"):
            watched.domains.define(
                xml_of(GuestMark(new := new_uuid(), AT).xml(), new, "instance-2"), GuestMark(new, AT)
            )
        ours.undefine()
        ours.undefine()
        assert watched.domains.states() == {}
        assert len(watched.connection.use().listAllDomains()) == 2
    finally:
        for handle in handles:
            handle.undefine()


def test_events_come_and_it_is_opened_anew_after_a_crash(watched: Watched, libvirt_node: LibvirtNode) -> None:
    mark = GuestMark(new_uuid(), AT)
    domain = watched.domains.define(xml_of(mark.xml(), mark.uuid), mark)
    domain.power_on()
    wait_until(lambda: (mark.uuid, 2) in watched.events, "the event of the start")
    assert domain.power_state() is PowerState.RUNNING
    libvirt_node.kill()
    with pytest.raises(HypervisorAway):
        watched.domains.states()
    with pytest.raises(HypervisorAway):
        watched.domains.states()
    libvirt_node.start()
    assert watched.domains.states() == {mark.uuid: PowerState.RUNNING}
    assert watched.opened == 2
    domain = watched.domains.get(mark.uuid)
    domain.power_off()  # libvirtd may still be reconnecting to its guests and send no event
    assert domain.power_state() is PowerState.SHUTDOWN
    domain.power_on()
    domain.power_off()
    wait_until(lambda: (mark.uuid, 5) in watched.events, "the event of the stop")


def test_a_call_to_one_that_hangs_ends(libvirt_node: LibvirtNode) -> None:
    watched = Watched(libvirt_node.uri)
    watched.connection = Connection(libvirt_node.uri, lambda *_: None, lambda: None, alive_every_s=1, alive_count=2)
    connection = watched.connection.use()
    os.kill(libvirt_node.pid, signal.SIGSTOP)
    try:
        began = time.monotonic()
        with pytest.raises(HypervisorAway), explained("list its guests"):
            connection.listAllDomains()
        assert time.monotonic() - began < 20
    finally:
        os.kill(libvirt_node.pid, signal.SIGCONT)
    wait_until(lambda: watched.connection.use().listAllDomains() == [], "libvirtd to answer again")
    watched.connection.close()


def test_calls_of_many_threads_to_one_that_hangs_end(libvirt_node: LibvirtNode) -> None:
    connection = Connection(libvirt_node.uri, lambda *_: None, lambda: None, alive_every_s=1, alive_count=2)
    ready, frozen = threading.Barrier(13), threading.Barrier(13)

    def call() -> bool:
        used = connection.use()
        ready.wait()
        frozen.wait()
        with explained("list its guests"):
            used.listAllDomains()
        return True

    with ThreadPoolExecutor(12) as threads:
        calls = [threads.submit(call) for _ in range(12)]
        ready.wait()
        os.kill(libvirt_node.pid, signal.SIGSTOP)
        try:
            frozen.wait()
            wait_until(lambda: all(each.done() for each in calls), "all calls to end", at_most_s=20)
        finally:
            os.kill(libvirt_node.pid, signal.SIGCONT)
        assert {type(each.exception()) for each in calls} == {HypervisorAway}
        assert list(threads.map(lambda _: connection.use().listAllDomains(), range(12))) == [[]] * 12
    connection.close()


def test_none_is_there() -> None:
    watched = Watched("qemu+unix:///system?socket=/nowhere/libvirt-sock")
    for _ in range(2):
        with pytest.raises(HypervisorAway):
            watched.domains.states()
    watched.connection.close()
    with pytest.raises(HypervisorAway):
        watched.domains.states()
