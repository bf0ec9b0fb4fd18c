# SPDX-License-Identifier: Apache-2.0
"""The libvirtd of the test session, in a folder of its own. It and its guests end with the test process."""

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from kilonova.bundled_services.libvirtd import GuestNetwork, Libvirtd
from kilonova.cli.up.libvirt import why_no_kvm_here

_PREFIX = "kn-node-"


class LibvirtNode(Libvirtd):
    """Running libvirtd and a folder for guests' disks. Each test removes the guests that it creates."""

    def __init__(self, host: str = "node1", network: GuestNetwork | None = None) -> None:
        _remove_leftovers()
        place = Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getpid()}-"))
        emulates = why_no_kvm_here() is not None
        super().__init__(place / "libvirt", host, emulates=emulates, guests_end_with_parent=True, network=network)
        self.instances = place / "instances"
        self.instances.mkdir()

    def start(self) -> None:
        """Start libvirtd, also after ``kill()``, and wait until it accepts connections."""
        super().start()
        self.wait()

    def remove(self) -> None:
        super().remove()
        shutil.rmtree(self.folder.parent, ignore_errors=True)


@pytest.fixture(scope="session")
def libvirt_node() -> Iterator[LibvirtNode]:
    """Fixture: the libvirtd of the session. ``kill()`` and ``start()`` are for crash tests."""
    node = LibvirtNode()
    try:
        node.start()
        yield node
    finally:
        node.remove()


@dataclass(frozen=True)
class BridgedNode:
    """A libvirtd in a network namespace of its own, which has the bridge ``bridge``."""

    node: LibvirtNode
    namespace: str
    bridge: str = "br-test"

    def members(self) -> set[str]:
        """Return the names of the devices that are connected to the bridge."""
        told = subprocess.run(
            ["ip", "-j", "-n", self.namespace, "link", "show", "master", self.bridge], check=True, capture_output=True
        )
        return {link["ifname"] for link in json.loads(told.stdout or "[]")}


@pytest.fixture(scope="module")
def bridged_node() -> Iterator[BridgedNode]:
    """Fixture: a libvirtd whose guests can be connected to a bridge."""
    namespace = f"{_PREFIX}{os.getpid()}"
    subprocess.run(["ip", "netns", "add", namespace], check=True)
    try:
        for words in (("add", "br-test", "type", "bridge"), ("set", "br-test", "up")):
            subprocess.run(["ip", "-n", namespace, "link", *words], check=True)
        node = LibvirtNode("bridged", GuestNetwork(Path("/run/netns", namespace)))
        try:
            node.start()
            yield BridgedNode(node, namespace)
        finally:
            node.remove()
    finally:
        subprocess.run(["ip", "netns", "delete", namespace], check=True)


def _remove_leftovers() -> None:
    """Remove the folders of test processes that were killed; their guests died with them."""
    for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        if not Path(f"/proc/{folder.name.removeprefix(_PREFIX).split('-')[0]}").exists():
            shutil.rmtree(folder, ignore_errors=True)
