# SPDX-License-Identifier: Apache-2.0
"""Let Horizon launch and show servers in a cloud that has no network service.

Its client refuses to ask for a server without a word on networks, and Horizon has none where no network service is:
here it asks for servers without a network. The overview and the page of a server ask what the network service can do,
and for the security groups of the server: here there is nothing of either. Put this file where Horizon can import it,
in a package, and name it in its settings::

    HORIZON_CONFIG["customization_module"] = "horizon_overrides.without_networks"
"""

from typing import Any

from novaclient.v2.servers import ServerManager
from openstack_dashboard.api import neutron

_create = ServerManager.create


def create(manager: ServerManager, *given: Any, nics: Any = None, **named: Any) -> Any:
    """Create a server as before; without networks where none are named."""
    return _create(manager, *given, nics=nics or "none", **named)


def nothing(*asked: Any, **filters: Any) -> tuple[Any, ...]:
    """Return what there is without a network service, whatever is asked for."""
    del asked, filters
    return ()


ServerManager.create = create
neutron.list_extensions = neutron.server_security_groups = neutron.security_group_list = nothing
