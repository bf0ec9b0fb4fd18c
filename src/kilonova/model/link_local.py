# SPDX-License-Identifier: Apache-2.0
"""IPv6 link-local addresses that contain a MAC address (EUI-64). Source: RFC 4291, appendix A."""

import ipaddress

_UNIVERSAL = 0x02


def mac_in(address: str) -> str | None:
    """Return the MAC address that a link-local address contains; None if it contains none. Raises: ValueError."""
    parsed = ipaddress.ip_address(address)
    if parsed.version != 6 or not parsed.is_link_local:
        return None
    octets = parsed.packed[8:]
    if octets[3:5] != b"\xff\xfe":
        return None
    return ":".join(f"{octet:02x}" for octet in (octets[0] ^ _UNIVERSAL, *octets[1:3], *octets[5:]))
