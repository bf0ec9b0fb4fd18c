# SPDX-License-Identifier: Apache-2.0
from collections.abc import Iterator
from typing import Any

import libvirt
import pytest

from support.libvirt_node import LibvirtNode, bridged_node, libvirt_node

__all__ = ["bridged_node", "libvirt_node"]


@pytest.fixture
def connection(libvirt_node: LibvirtNode) -> Iterator[Any]:
    """A connection of its own to the libvirtd of the test."""
    found = libvirt.open(libvirt_node.uri)
    yield found
    found.close()
