# SPDX-License-Identifier: Apache-2.0
"""Body of POST /flavors."""

from msgspec import Struct

from kilonova.api.typed_body import Flag, Whole


class NewFlavor(
    Struct,
    frozen=True,
    kw_only=True,
    rename={
        "ephemeral": "OS-FLV-EXT-DATA:ephemeral",
        "is_public": "os-flavor-access:is_public",
    },
):
    """The new flavor. Units: MiB (``ram``, ``swap``), GiB (``disk``, ``ephemeral``).

    Each number may be a string. ``id``: None or "auto" to generate an id.
    """

    name: str
    ram: Whole | str
    vcpus: Whole | str
    disk: Whole | str
    id: Whole | str | None = None
    ephemeral: Whole | str = 0
    swap: Whole | str = 0
    rxtx_factor: Whole | str = 1.0
    is_public: Flag = True
    description: str | None = None
