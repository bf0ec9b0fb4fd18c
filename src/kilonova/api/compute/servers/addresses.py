# SPDX-License-Identifier: Apache-2.0
"""Addresses and security groups of servers in replies, read from the cached interfaces."""

from typing import Any

from kilonova.model.network_info import NetworkInfo

#: IP version of all floating addresses.
_FLOATING = 4


def addresses_view(info: NetworkInfo, *, extended: bool = True) -> dict[str, list[dict[str, Any]]]:
    """Return network label → addresses of a server: the fixed ones, then the floating ones.

    ``extended``: with the kind of each address and the MAC address of its interface.
    """
    fixed: dict[str, list[dict[str, Any]]] = {}
    floating: dict[str, list[dict[str, Any]]] = {}
    for vif in info:
        shown = fixed.setdefault(vif.network.label, [])
        for subnet, address in vif.addresses:
            shown.append(_view(subnet.version, address.address, "fixed", vif.mac, extended))
            for outer in address.floating:
                view = _view(_FLOATING, outer, "floating", vif.mac, extended)
                floating.setdefault(vif.network.label, []).append(view)
    for label, more in floating.items():
        fixed[label] += more
    return fixed


def security_groups_view(info: NetworkInfo) -> list[dict[str, str]]:
    """Return the security groups of all ports of a server. As in Nova, a group that two ports have occurs twice."""
    return [{"name": name} for vif in info for name in vif.security_groups]


def _view(version: int, address: str, kind: str, mac: str, extended: bool) -> dict[str, Any]:
    view: dict[str, Any] = {"version": version, "addr": address}
    if extended:
        view |= {"OS-EXT-IPS:type": kind, "OS-EXT-IPS-MAC:mac_addr": mac}
    return view
