# SPDX-License-Identifier: Apache-2.0
"""Contents of a guest's config drive that are not in the other fields of :class:`GuestSpec`."""

from collections.abc import Mapping
from dataclasses import field
from typing import Any

from kilonova.records import dataclass


@dataclass(frozen=True, slots=True)
class PublicKey:
    """A copy of a key pair's public key, made when the server was created. ``type``: ssh or x509."""

    name: str
    type: str
    data: str


@dataclass(frozen=True, slots=True)
class ConfigDrive:
    """Metadata for a guest's config drive.

    ``domain``: DNS domain that is appended to a host name without a domain. ``vendor_data``: metadata added by the
    operator. ``admin_pass``: administrator's password. Only the control process that accepted the request knows this
    password, and only until the guest is created.
    """

    display_name: str
    availability_zone: str | None = None
    launch_index: int = 0
    reservation_id: str = ""
    domain: str = ""
    flavor_name: str = ""
    key: PublicKey | None = None
    vendor_data: Mapping[str, Any] = field(default_factory=dict)
    admin_pass: str | None = field(default=None, repr=False)
