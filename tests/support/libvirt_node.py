# SPDX-License-Identifier: Apache-2.0
"""The libvirtd of the test session, in a folder of its own. It and its guests end with the test process."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from kilonova.bundled_services.libvirtd import Libvirtd
from kilonova.cli.up.libvirt import why_no_kvm_here

_PREFIX = "kn-node-"


class LibvirtNode(Libvirtd):
    """Running libvirtd and a folder for guests' disks. Each test removes the guests that it creates."""

    def __init__(self, host: str = "node1") -> None:
        _remove_leftovers()
        place = Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getpid()}-"))
        emulates = why_no_kvm_here() is not None
        super().__init__(place / "libvirt", host, emulates=emulates, guests_end_with_parent=True)
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


def _remove_leftovers() -> None:
    """Remove the folders of test processes that were killed; their guests died with them."""
    for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        if not Path(f"/proc/{folder.name.removeprefix(_PREFIX).split('-')[0]}").exists():
            shutil.rmtree(folder, ignore_errors=True)
