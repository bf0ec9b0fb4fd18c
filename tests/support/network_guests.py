# SPDX-License-Identifier: Apache-2.0
"""Real guests with networks: what they write to their consoles, and the end of the guests of a cloud."""

import re
from pathlib import Path

from kilonova.bundled_services.host_network import HostNetwork, run
from kilonova.bundled_services.libvirtd import Libvirtd
from support.stock_cloud import StockCloud

#: Seconds within which a guest has booted, also without KVM.
BOOT_S = 180


def said(stock: StockCloud, server: str, pattern: str) -> list[str]:
    """Return what a pattern matches in the console log of a server."""
    return re.findall(pattern, stock.do("console", "log", "show", server).replace("\r", ""))


def namespaces(folder: Path) -> list[str]:
    """Return the names of the network namespaces of a cloud."""
    digest = HostNetwork(folder, "").name.rpartition("-")[2]
    return [file.name for file in Path("/run/netns").glob(f"kn-*-{digest}")]


def end_guests(folder: Path) -> None:
    """Stop the guests that a stopped cloud has left, and remove their network namespaces."""
    for libvirt in (folder / "libvirt", *folder.glob("hosts/*/libvirt")):
        Libvirtd(libvirt).end_guests()
    for namespace in namespaces(folder):
        run("ip", "netns", "delete", namespace)
