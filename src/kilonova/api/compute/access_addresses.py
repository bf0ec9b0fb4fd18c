# SPDX-License-Identifier: Apache-2.0
"""Access addresses of servers (accessIPv4, accessIPv6), which are stored and shown in their shortest notation."""

from ipaddress import ip_address

from kilonova.api.validation import invalid_field


def read_addresses(where: str, ip_v4: str | None, ip_v6: str | None) -> dict[str, str]:
    """Return database column → IP address, for each address that is not None.

    ``where``: name of the object in the body that contains the addresses. Raises: InvalidRequest.
    """
    found = {}
    for field, column, text in (("accessIPv4", "access_ip_v4", ip_v4), ("accessIPv6", "access_ip_v6", ip_v6)):
        if text is not None:
            try:
                found[column] = str(ip_address(text))
            except ValueError as error:
                raise invalid_field(f"{where}.{field}", str(error)) from None
    return found
