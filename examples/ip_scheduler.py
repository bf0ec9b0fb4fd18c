# SPDX-License-Identifier: Apache-2.0
"""A scheduler driver that chooses hosts by the client's network.

    [scheduler]
    driver = ip_scheduler.IPScheduler
    [api]
    use_forwarded_for = true        # if the API is behind a proxy

Requests from 10.1… go to hosts named doc…, from 10.2… to ops…, all others to dev…; the host is chosen at random.

Source: OpenStack, "Customizing the OpenStack Compute (nova) Scheduler".
"""

import logging
import random
from collections.abc import Mapping
from typing import Any

from kilonova.errors import NoValidHost
from kilonova.scheduler.driver import RequestContext, Scheduler

LOG = logging.getLogger(__name__)
#: Prefix of the client's address → prefix of host names. Prefixes are compared as text, so 10.10.0.1 matches "10.1".
HOSTS_OF_NETWORK = {"10.1": "doc", "10.2": "ops"}
HOSTS_OF_ALL_OTHERS = "dev"


class IPScheduler(Scheduler):
    """Place servers at random on the hosts of the caller's network."""

    def select_destinations(
        self, context: RequestContext, request_spec: Mapping[str, Any], filter_properties: Mapping[str, Any]
    ) -> list[dict[str, Any]]:
        del filter_properties
        count = request_spec["num_instances"]
        return [{"host": self._host_for(context), "nodename": None, "limits": None} for _ in range(count)]

    def _host_for(self, context: RequestContext) -> str:
        up = self.hosts_up(context.elevated(), "compute")
        if not up:
            raise NoValidHost(reason="Is the appropriate service running?")
        address = context.remote_address or ""
        wanted = next(
            (hosts for network, hosts in HOSTS_OF_NETWORK.items() if address.startswith(network)), HOSTS_OF_ALL_OTHERS
        )
        fitting = [host for host in up if host.startswith(wanted)]
        if not fitting:
            raise NoValidHost(reason="Could not find another compute")
        host = random.choice(fitting)
        LOG.debug("Request from %s scheduled to %s", address, host)
        return host
