# SPDX-License-Identifier: Apache-2.0
"""Makes the client of the network service from the section [neutron]."""

import logging
from collections.abc import Callable

from kilonova.config.settings import Settings
from kilonova.network.client import NetworkClient

LOG = logging.getLogger(__name__)


def network_client(settings: Settings, may_act: Callable[[], bool] = lambda: True) -> NetworkClient | None:
    """Return a client with the credentials of Kilonova's own user, or None if no network service is configured.

    It connects on first use. ``may_act``: returns whether this process may act; otherwise it changes no port.
    Raises: ConfigurationError.
    """
    if "neutron" not in settings.conf.list_all_sections():
        return None
    from kilonova.identity.keystone import network_adapter_of  # noqa: PLC0415 - brings an HTTP client

    adapter = network_adapter_of(settings.conf)
    if adapter is None:
        LOG.warning("Servers get no networks: [neutron] has no credentials of Kilonova's user")
        return None
    from kilonova.network.cached_client import CachedClient  # noqa: PLC0415 - not needed without a network service
    from kilonova.network.grouped_ports import GroupedPorts  # noqa: PLC0415 - not needed without a network service
    from kilonova.network.leased_client import LeasedClient  # noqa: PLC0415 - not needed without a network service
    from kilonova.network.neutron import Neutron  # noqa: PLC0415 - not needed without a network service

    neutron = LeasedClient(Neutron(adapter, retries=settings.neutron.http_retries), may_act)
    return CachedClient(GroupedPorts(neutron), extensions_s=settings.neutron.extension_sync_interval_s)
