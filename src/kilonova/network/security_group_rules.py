# SPDX-License-Identifier: Apache-2.0
"""Ingress rules of security groups, in the form of the compute API, read and changed with the rights of a user.

The compute API has neither egress rules nor the IP version of a rule.
"""

from collections.abc import Iterable
from typing import Any

from kilonova.network.client import NetworkClient, Resource
from kilonova.records import dataclass

ANYWHERE = "0.0.0.0/0"
#: Any type and code of ICMP.
ANY_ICMP = (-1, -1)
#: All ports of TCP and UDP.
ALL_PORTS = (1, 65535)
HAVE_PORTS = frozenset({"TCP", "UDP"})


@dataclass(frozen=True, slots=True, kw_only=True)
class NewRule:
    """A rule to create: the senders and packets that the servers of a group accept.

    ``from_port`` and ``to_port``: a range of ports; for ICMP, type and code; -1 and None: any. The sender is in the
    network ``cidr``, or has the security group ``source_group_id``.
    """

    protocol: str | None = None
    from_port: int | None = None
    to_port: int | None = None
    cidr: str | None = None
    source_group_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class IngressRule:
    """A rule of the group ``group_id``. ``cidr``: ``0.0.0.0/0`` also if the rule has no network."""

    id: str
    group_id: str
    protocol: str | None
    from_port: int | None
    to_port: int | None
    cidr: str
    source_group_id: str | None


def read_rules(found: Iterable[Resource]) -> tuple[IngressRule, ...]:
    """Convert the ingress rules among the rules of a group."""
    return tuple(read_rule(each) for each in found if each["direction"] == "ingress")


def read_rule(found: Resource) -> IngressRule:
    """Convert a rule. A rule with a protocol but no range gets the whole range of the protocol."""
    protocol, low, high = found["protocol"], found.get("port_range_min"), found.get("port_range_max")
    if protocol and low is None and high is None:
        low, high = ALL_PORTS if protocol.upper() in HAVE_PORTS else ANY_ICMP
    return IngressRule(
        id=found["id"],
        group_id=found["security_group_id"],
        protocol=protocol,
        from_port=low,
        to_port=high,
        cidr=found.get("remote_ip_prefix") or ANYWHERE,
        source_group_id=found.get("remote_group_id"),
    )


def is_same(rule: IngressRule, new: NewRule) -> bool:
    """Whether a rule with a ``cidr`` is equal to a new rule. Neutron itself compares rules with a source group."""
    fields = ("protocol", "from_port", "to_port", "cidr", "source_group_id")
    return all(getattr(rule, field) == getattr(new, field) for field in fields)


def get_rule(client: NetworkClient, rule_id: str, *, token: str) -> IngressRule:
    """Return a rule. Raises: NotFound."""
    return read_rule(client.show("security-group-rules", rule_id, token=token))


def create_rule(client: NetworkClient, group_id: str, new: NewRule, *, token: str) -> IngressRule:
    """Add a rule to a group. Raises: NotFound, InvalidRequest, OverQuota, Conflict if there is an equal rule."""
    values: dict[str, Any] = {
        "security_group_id": group_id,
        "direction": "ingress",
        "ethertype": "IPv6" if ":" in (new.cidr or "") else "IPv4",
        "protocol": new.protocol,
        "remote_ip_prefix": new.cidr,
        "remote_group_id": new.source_group_id,
    }
    ranges = {"port_range_min": new.from_port, "port_range_max": new.to_port}
    values |= {name: port for name, port in ranges.items() if port not in {None, -1}}
    return read_rule(client.create("security-group-rules", values, token=token))


def delete_rule(client: NetworkClient, rule: IngressRule, *, token: str) -> None:
    """Remove a rule from its group. Raises: NotFound, Forbidden."""
    client.delete("security-group-rules", rule.id, token=token)
