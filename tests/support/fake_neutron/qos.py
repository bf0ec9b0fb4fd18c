# SPDX-License-Identifier: Apache-2.0
"""QoS policies of the fake Neutron that guarantee bandwidths and packet rates, and what ports then request."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from uuid import NAMESPACE_URL, uuid5

from support.fake_neutron.store import Store, Stored


@dataclass(frozen=True)
class Guarantee:
    """A QoS policy: minimum bandwidths in kbit/s, by direction, and a minimum packet rate."""

    egress: int = 0
    ingress: int = 0
    packets: int = 0


def resource_request(store: Store, guarantees: Mapping[str, Guarantee], port: Stored, *, groups: bool) -> Any:
    """Return the attribute ``resource_request`` of a port. ``groups``: in the format with request groups."""
    network = store["networks"][port["network_id"]]
    policy = guarantees.get(port["qos_policy_id"] or network.get("qos_policy_id") or "")
    if policy is None:
        return None
    vnic = f"CUSTOM_VNIC_TYPE_{port['binding:vnic_type'].upper().replace('-', '_')}"
    physical = network["provider:physical_network"]
    bandwidth = {
        "NET_BW_EGR_KILOBIT_PER_SEC": policy.egress,
        "NET_BW_IGR_KILOBIT_PER_SEC": policy.ingress,
    }
    asked = [
        _group(port, "bandwidth", bandwidth, [f"CUSTOM_PHYSNET_{physical.upper()}", vnic] if physical else [vnic]),
        _group(port, "packets", {"NET_PACKET_RATE_KILOPACKET_PER_SEC": policy.packets}, [vnic]),
    ]
    asked = [each for each in asked if each["resources"]]
    if groups:
        return {"request_groups": asked, "same_subtree": [each["id"] for each in asked]} if asked else None
    return {"required": asked[0]["required"], "resources": asked[0]["resources"]} if asked else None


def _group(port: Stored, name: str, resources: Mapping[str, int], required: list[str]) -> Stored:
    wanted = {key: amount for key, amount in resources.items() if amount}
    return {"id": str(uuid5(NAMESPACE_URL, f"{port['id']}/{name}")), "required": required, "resources": wanted}
