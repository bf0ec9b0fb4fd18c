# SPDX-License-Identifier: Apache-2.0
"""Access addresses (accessIPv4, accessIPv6) of servers, stored and shown in their shortest form."""

from ipaddress import ip_address

from kilonova.api.validation import invalid_field


def read_addresses(where: str, ip_v4: str | None, ip_v6: str | None) -> dict[str, str]:
    """Return column → IP address for the addresses that are set. ``where``: name of their object in the body.

    Raises: InvalidRequest.
    """
    found = {}
    for field, column, text in (("accessIPv4", "access_ip_v4", ip_v4), ("accessIPv6", "access_ip_v6", ip_v6)):
        if text is not None:
            try:
                found[column] = str(ip_address(text))
            except ValueError as error:
                raise invalid_field(f"{where}.{field}", str(error)) from None
    return found
