# SPDX-License-Identifier: Apache-2.0
"""Access addresses (accessIPv4, accessIPv6) of servers, stored and shown in their shortest form."""

from collections.abc import Mapping
from ipaddress import ip_address
from typing import Any

from kilonova.api.validation import invalid_field

#: Field of the request body → database column.
FIELDS: Mapping[str, str] = {"accessIPv4": "access_ip_v4", "accessIPv6": "access_ip_v6"}


def read_addresses(asked: Mapping[str, Any], where: str) -> dict[str, str]:
    """Return column → address for the fields in ``asked``. ``where``: its path for errors. Raises: InvalidRequest."""
    found = {}
    for field, column in FIELDS.items():
        if field in asked:
            try:
                found[column] = str(ip_address(asked[field]))
            except ValueError as error:
                raise invalid_field(f"{where}.{field}", str(error)) from None
    return found
