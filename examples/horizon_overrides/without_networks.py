# SPDX-License-Identifier: Apache-2.0
"""Overrides that let Horizon create and show servers in a cloud without a network service.

Horizon sends no ``networks`` if there is no network service, and its client then refuses to create the server: here the
default is ``none``. The overview and the page of a server list the extensions of the network service and the server's
security groups: here both are empty. Put this file into a package that Horizon can import, and name it in its
settings::

    HORIZON_CONFIG["customization_module"] = "horizon_overrides.without_networks"
"""

from typing import Any

from novaclient.v2.servers import ServerManager
from openstack_dashboard.api import neutron

_create = ServerManager.create


def create(manager: ServerManager, *given: Any, nics: Any = None, **named: Any) -> Any:
    """Create a server, without networks if none are named."""
    return _create(manager, *given, nics=nics or "none", **named)


def nothing(*asked: Any, **filters: Any) -> tuple[Any, ...]:
    """Return an empty tuple in place of a list from the network service."""
    del asked, filters
    return ()


ServerManager.create = create
neutron.list_extensions = neutron.server_security_groups = neutron.security_group_list = nothing
