# SPDX-License-Identifier: Apache-2.0
"""``/os-volumes_boot``, an alias of ``/servers``: it was an extension to boot servers from volumes. Until: 2.102."""

from dataclasses import replace

from kilonova.api.compute.servers import actions, servers
from kilonova.api.http import Routes
from kilonova.api.microversion import Version

RULES = ()
_LAST = Version(2, 102)

ROUTES: Routes = {
    path.replace("/servers", "/os-volumes_boot", 1): {
        method: replace(endpoint, until=_LAST) for method, endpoint in methods.items()
    }
    for path, methods in {**servers.ROUTES, **actions.ROUTES}.items()
}
