# SPDX-License-Identifier: Apache-2.0
"""What a guest is told of itself on a disk of its own, as far as its hypervisor does not know it anyway."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class PublicKey:
    """The public half of a key pair, as it was when a server was made with it. ``type``: ssh or x509."""

    name: str
    type: str
    data: str


@dataclass(frozen=True, slots=True)
class ConfigDrive:
    """``domain`` follows the host name of a guest whose name has none. ``vendor_data``: what the operator adds.

    ``admin_pass`` is known only to the process that was asked for the server, and only until the guest is there.
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
