# SPDX-License-Identifier: Apache-2.0
"""What a host gives to the ports of a server, as keys of their ``binding:profile``."""

from collections.abc import Iterable, Mapping

from kilonova.model.request_spec import RequestedNetwork

#: Port id → keys of ``binding:profile`` that depend on the host. Ports without such keys are left out.
PortProfiles = Mapping[str, Mapping[str, object]]
NO_PROFILES: PortProfiles = {}
ALLOCATION = "allocation"


def profiles_on(networks: Iterable[RequestedNetwork], providers: Mapping[str, str]) -> dict[str, dict[str, object]]:
    """Return the profiles of the ports on a host. ``providers``: request group → uuid of its resource provider.

    ``allocation`` names the provider of each group; if the port uses the format without groups, it is the only
    provider's uuid.
    """
    profiles: dict[str, dict[str, object]] = {}
    for network in networks:
        given = {group.suffix: providers[group.suffix] for group in network.groups if group.suffix in providers}
        if given:
            profiles[network.port_id] = {ALLOCATION: given.get(network.port_id, given)}
    return profiles
