# SPDX-License-Identifier: Apache-2.0
"""IP addresses and networks, parsed and written as Nova does."""

from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address

Network = IPv4Network | IPv6Network
#: The first 96 bits of an IPv6 address that stands for an IPv4 address.
_MAPPED = 0xFFFF


def canonical_address(text: str) -> str:
    """Return the canonical spelling of an IPv6 address, for example ``2001:db8::91`` for ``2001:DB8::0:91``.

    Every other text is returned unchanged; IPv4 addresses have only one spelling.
    """
    if ":" not in text or "%" in text:
        return text
    try:
        address = IPv6Address(text)
    except ValueError:
        return text
    prefix, last = divmod(int(address), 1 << 32)
    # An IPv6 address that contains an IPv4 address shows this part with dots.
    if prefix == _MAPPED or (prefix == 0 and last >> 16):
        return f"::{'ffff:' if prefix else ''}{IPv4Address(last)}"
    return str(address)


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
        raise ValueError("an IPv6 address with a zone has a meaning on one host only")
    return ip_address(text)


def _prefix_length(text: str, address: IPv4Address | IPv6Address) -> int:
    """Return the prefix length that ``text`` states as a number or as a mask. Raises: ValueError."""
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
