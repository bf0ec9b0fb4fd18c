# SPDX-License-Identifier: Apache-2.0
"""Interfaces of servers for tests of what is shown and searched."""

from typing import Any

from kilonova.model.network_info import FixedAddress, Vif, VifNetwork, VifSubnet


def interface(
    label: str, *addresses: str, floating: tuple[str, ...] = (), mac: str = "fa:16:3e:00:00:01", **facts: Any
) -> Vif:
    """Return an interface with a subnet for each address. ``floating``: translated to the first address."""
    subnets = tuple(
        VifSubnet(
            id=f"subnet-{number}",
            cidr="fd00::/64" if ":" in address else "10.0.0.0/24",
            version=6 if ":" in address else 4,
            addresses=(FixedAddress(address, () if number else floating),),
        )
        for number, address in enumerate(addresses)
    )
    network = VifNetwork(id=f"id-of-{label}", label=label)
    return Vif(port_id=facts.pop("port_id", f"port-{mac}"), mac=mac, network=network, subnets=subnets, **facts)
