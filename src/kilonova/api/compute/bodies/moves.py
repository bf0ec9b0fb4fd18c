# SPDX-License-Identifier: Apache-2.0
"""Bodies of resize, cold migration, live migration and evacuation of a server."""

from msgspec import Struct

from kilonova.api.typed_body import Flag, Whole


class Resize(Struct, frozen=True, kw_only=True, rename={"flavor_ref": "flavorRef", "disk_config": "OS-DCF:diskConfig"}):
    """A resize to another flavor. ``disk_config``: None keeps the server's value."""

    flavor_ref: Whole | str
    disk_config: str | None = None


class Migration(Struct, frozen=True, kw_only=True):
    """A cold migration. ``host``: None lets the scheduler select the host."""

    host: str | None = None


class LiveMigration(Struct, frozen=True, kw_only=True):
    """A live migration. ``host``: None lets the scheduler select a host. ``force``: bypass the scheduler's filters."""

    host: str | None
    force: Flag = False


class Evacuation(
    Struct, frozen=True, kw_only=True, rename={"admin_pass": "adminPass", "on_shared_storage": "onSharedStorage"}
):
    """An evacuation. ``host``: None lets the scheduler select a host. ``force``: bypass the scheduler's filters."""

    host: str | None = None
    admin_pass: str | None = None
    on_shared_storage: Flag = False
    force: Flag = False
