# SPDX-License-Identifier: Apache-2.0
"""IP addresses and networks, parsed and written as Nova does."""

import socket
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address

Network = IPv4Network | IPv6Network


def canonical_address(text: str) -> str:
    """Return the canonical spelling of an IPv6 address (``2001:db8::91`` of ``2001:DB8::0:91``).

    Every other text is returned unchanged; IPv4 addresses have only one spelling.
    """
    if ":" not in text:
        return text
    try:
        return socket.inet_ntop(socket.AF_INET6, socket.inet_pton(socket.AF_INET6, text))
    except (OSError, ValueError):
        return text


def network_of(text: str) -> Network | None:
    """Return the network of ``ADDRESS/PREFIX``, or None if the text is invalid.

    The prefix is a number, a netmask or a host mask (``0.0.0.255``) of the same IP version. Without ``/`` the network
    is the address alone.
    """
    address, slash, prefix = text.partition("/")
    try:
        base = _address(address)
        length = _prefix_length(prefix, base) if slash else base.max_prefixlen
        if isinstance(base, IPv4Address):
            return IPv4Network((int(base), length), strict=False)
        return IPv6Network((int(base), length), strict=False)
    except ValueError:
        return None


def _address(text: str) -> IPv4Address | IPv6Address:
    if "%" in text:
        raise ValueError("a zone of an IPv6 address says nothing about other hosts")
    return ip_address(text)


def _prefix_length(text: str, address: IPv4Address | IPv6Address) -> int:
    """Return the length that a number or a mask means. Raises: ValueError."""
    try:
        return int(text)
    except ValueError:
        mask = _address(text)
    if mask.version != address.version:
        raise ValueError("the mask is of another IP version")
    width = address.max_prefixlen
    selected = int(mask)
    hosts = selected ^ ((1 << width) - 1)
    if not hosts & (hosts + 1):
        return width - hosts.bit_length()
    if not selected & (selected + 1):
        return width - selected.bit_length()
    raise ValueError("the mask has gaps")
