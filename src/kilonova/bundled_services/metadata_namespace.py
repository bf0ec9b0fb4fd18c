# SPDX-License-Identifier: Apache-2.0
"""The unnamed network namespace in which the metadata service of one network listens. It has one device.

The device has the addresses of Neutron's metadata port in the network, 169.254.169.254 and fe80::a9fe:a9fe. It is one
end of a veth pair; the other end is a port of Open vSwitch. The namespace and the veth pair disappear when this process
exits, even by ``kill -9``.
"""

import contextlib
import ctypes
import os
import socket
import threading
from collections.abc import Callable
from typing import TypeVar

from kilonova.bundled_services.host_network import run, try_run
from kilonova.bundled_services.metadata_networks import MetadataNetwork
from kilonova.bundled_services.neighbours import Neighbours
from kilonova.errors import Unavailable
from kilonova.server.listening import listen

#: Prefix of the names of devices in the namespace of the guests.
DEVICE_PREFIX = "meta"
_ADDRESS, _ADDRESS_6 = "169.254.169.254", "fe80::a9fe:a9fe"
_PORT = 80
_NAME = "The metadata service"
_CLONE_NEWNET = 0x40000000  # linux/sched.h
_NAME_LENGTH = 15
_INSIDE = "guests0"

_libc = ctypes.CDLL(None, use_errno=True)
T = TypeVar("T")


class MetadataNamespace:
    """Namespace of one network. ``guests``: name of the guests' namespace. ``vsctl``: the ovs-vsctl command.

    ``listeners``: the sockets on which requests of the network's guests arrive. Raises: Unavailable, after removal of
    what was created.
    """

    def __init__(self, network: MetadataNetwork, guests: str, vsctl: tuple[str, ...]) -> None:
        self.network = network
        self._guests, self._vsctl = guests, vsctl
        self._device = f"{DEVICE_PREFIX}{network.port}"[:_NAME_LENGTH]
        self.neighbours: Neighbours | None = None
        self.listeners: tuple[socket.socket, ...] = ()
        self._namespace = _in_thread(_unshared)
        try:
            self._connect()
            self.neighbours, self.listeners = _in_thread(self._listen)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Remove the namespace. Call this after the server that uses its listeners has stopped."""
        with contextlib.suppress(Unavailable):
            run(*self._vsctl, "--if-exists", "del-port", "br-int", self._device)
        try_run("ip", "-n", self._guests, "link", "delete", self._device)
        for each in (self.neighbours, *self.listeners):
            if each is not None:
                each.close()
        os.close(self._namespace)

    def _connect(self) -> None:
        inside, network = f"/proc/{os.getpid()}/fd/{self._namespace}", self.network
        within = ("nsenter", f"--net={inside}")
        try_run("ip", "-n", self._guests, "link", "delete", self._device)
        run("ip", "-n", self._guests, *f"link add {self._device} type veth peer name {_INSIDE} netns".split(), inside)
        run(*within, "ip", "link", "set", "lo", "up")
        run(*within, "ip", "link", "set", _INSIDE, "address", network.mac, "up")
        for cidr in (*network.cidrs, f"{_ADDRESS}/32", f"{_ADDRESS_6}/64"):
            try_run(*within, "ip", "address", "add", cidr, "dev", _INSIDE, "nodad")
        # Open vSwitch in user space gets packets without the checksums that a network card fills in
        run(*within, "ethtool", "-K", _INSIDE, "tx", "off")
        run("ip", "-n", self._guests, "link", "set", self._device, "up")
        run(
            *(*self._vsctl, "--may-exist", "add-port", "br-int", self._device),
            *("--", "set", "Interface", self._device, f"external_ids:iface-id={network.port}"),
        )

    def mac_of(self, address: str) -> str:
        """Return the MAC address from which the guest with an address was reached last; "" if it is unknown."""
        return "" if self.neighbours is None else self.neighbours.mac_of(address)

    def _listen(self) -> tuple[Neighbours, tuple[socket.socket, ...]]:
        _check(_libc.setns(self._namespace, _CLONE_NEWNET), "setns")
        listeners = [listen(_ADDRESS, _PORT, _NAME)]
        with contextlib.suppress(Unavailable):  # the machine has no IPv6
            listeners.append(listen(f"{_ADDRESS_6}%{_INSIDE}", _PORT, _NAME))
        return Neighbours(socket.if_nametoindex(_INSIDE)), tuple(listeners)


def _unshared() -> int:
    """Return a file descriptor of a new network namespace. Call it in a thread that ends afterwards."""
    _check(_libc.unshare(_CLONE_NEWNET), "unshare")
    return os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)


def _in_thread(work: Callable[[], T]) -> T:
    """Run ``work`` in a new thread, because ``work`` changes the network namespace of its thread."""
    done: list[T] = []
    failed: list[BaseException] = []

    def run_it() -> None:
        try:
            done.append(work())
        except BaseException as error:  # noqa: BLE001 - raised again in the waiting thread
            failed.append(error)

    thread = threading.Thread(target=run_it, name="namespace")
    thread.start()
    thread.join()
    if failed:
        raise failed[0]
    return done[0]


def _check(result: int, what: str) -> None:
    if result != 0:
        raise Unavailable(f"{what} failed: {os.strerror(ctypes.get_errno())}")
