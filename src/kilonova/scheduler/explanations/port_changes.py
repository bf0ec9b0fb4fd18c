# SPDX-License-Identifier: Apache-2.0
"""Changes of the networks and ports of a request that could make a host fit."""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import numpy as np

from kilonova.model.request_spec import RequestedNetwork, RequestSpec, ResourceGroup
from kilonova.placement.provider_table import ProviderTable
from kilonova.scheduler.explanations.changes import GIVE_UP, Change
from kilonova.scheduler.host_table import HostTable

#: Number of lower amounts that are tried for each resource of a port.
_MOST_AMOUNTS = 8


def port_changes(hosts: HostTable, spec: RequestSpec) -> Iterator[Change]:
    """Yield changes of what ports request: a lower amount, or no such port or network."""
    for network in spec.networks:
        if hosts.providers is not None:
            for group in network.groups:
                yield from _lower(hosts.providers, network, group)
        name = network.port_id or network.network_id
        what = f"port {network.port_id}" if network.port_id else f"network {network.network_id}"
        without = partial(_without, network)
        yield Change("port", f"do without {what}", GIVE_UP, name, name, None, "", without)


def _lower(providers: ProviderTable, network: RequestedNetwork, group: ResourceGroup) -> Iterator[Change]:
    """Yield lower amounts that a provider with the traits of the group can give, the largest first."""
    suits = np.ones(len(providers), dtype=np.bool_)
    for trait in group.required:
        suits &= providers.has_any_trait([trait])
    for name, amount in group.resources.items():
        column = providers.column(name)
        if column is None:
            continue
        free = np.minimum(
            providers.capacity[suits, column] - providers.used[suits, column], providers.max_unit[suits, column]
        )
        steps = np.maximum(providers.step_size[suits, column], 1)
        possible = {int(each) for each in (free // steps * steps).tolist() if 0 < each < amount}
        for lower in sorted(possible, reverse=True)[:_MOST_AMOUNTS]:
            text = f"ask for {lower} {name} instead of {amount} for port {network.port_id} ({amount - lower} less)"
            change = partial(_with_amount, network.port_id, group.suffix, name, lower)
            yield Change("port", text, (amount - lower) / amount, network.port_id, amount, lower, "", change)


def _with_amount(port_id: str, suffix: str, name: str, amount: int, spec: RequestSpec) -> RequestSpec:
    def changed(group: ResourceGroup) -> ResourceGroup:
        return replace(group, resources={**group.resources, name: amount}) if group.suffix == suffix else group

    return replace(
        spec,
        networks=tuple(
            replace(network, groups=tuple(map(changed, network.groups))) if network.port_id == port_id else network
            for network in spec.networks
        ),
    )


def _without(network: RequestedNetwork, spec: RequestSpec) -> RequestSpec:
    name = network.network_id, network.port_id
    return replace(spec, networks=tuple(each for each in spec.networks if (each.network_id, each.port_id) != name))
