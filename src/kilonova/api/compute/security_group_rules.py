# SPDX-License-Identifier: Apache-2.0
"""Routes of the rules of security groups up to 2.35."""

from collections.abc import Mapping
from ipaddress import ip_address
from typing import Any
from urllib.parse import unquote

from kilonova.api.compute.network_service import network_of, token_of
from kilonova.api.compute.schemas import security_groups as schemas
from kilonova.api.compute.security_group_views import rule_view
from kilonova.api.compute.security_groups import require_uuid
from kilonova.api.http import Context, Endpoint, Reply, Request, Routes
from kilonova.api.microversion import Version
from kilonova.api.policy import PROJECT_MEMBER_OR_ADMIN, rule
from kilonova.errors import Conflict, InvalidRequest, NotFound, OverQuota
from kilonova.model.address import network_of as network_of_address
from kilonova.network import security_group_rules, security_groups
from kilonova.network.security_group_rules import ALL_PORTS, ANY_ICMP, ANYWHERE, HAVE_PORTS, NewRule

_ALL, _ONE = "/os-security-group-rules", "/os-security-group-rules/{security_group_rule_id}"
_P = "os_compute_api:os-security-groups:rule"
_LAST = Version(2, 35)
_ICMP = "ICMP"
_LARGEST_ICMP = 255
RULES = (
    rule(f"{_P}:create", PROJECT_MEMBER_OR_ADMIN, "Add a rule to a security group", ("POST", _ALL)),
    rule(f"{_P}:delete", PROJECT_MEMBER_OR_ADMIN, "Remove a security group's rule", ("DELETE", _ONE)),
)


def create_rule(ctx: Context, request: Request) -> Reply:
    """POST /os-security-group-rules.  Until: 2.35.

    Errors: 400, also if the group already has the rule; 403 over quota; 404. As in Nova, the status is 403 instead of
    400 if the rule that the group already has contains a source group.
    """
    ctx.authorize(f"{_P}:create")
    network, token = network_of(ctx), token_of(ctx)
    asked = request.body["security_group_rule"]
    group = security_groups.get_group(network, asked["parent_group_id"], token=token)
    source_id = asked.get("group_id")
    source = None if source_id is None else security_groups.get_group(network, source_id, token=token)
    new = _new_rule(asked)
    if any(security_group_rules.is_same(each, new) for each in group.rules):
        raise InvalidRequest(f"This rule already exists in group {group.id}")
    try:
        made = security_group_rules.create_rule(network, group.id, new, token=token)
    except Conflict as error:
        raise OverQuota(error.message) from None
    return Reply(200, {"security_group_rule": rule_view(made, source)})


def delete_rule(ctx: Context, request: Request) -> Reply:
    """DELETE /os-security-group-rules/{security_group_rule_id}.  Until: 2.35.  Errors: 400, 404."""
    ctx.authorize(f"{_P}:delete")
    rule_id = request.path["security_group_rule_id"]
    if ctx.backend.network is None:
        raise NotFound(f"There is no rule of a security group {rule_id}.")
    found = security_group_rules.get_rule(ctx.backend.network, require_uuid(rule_id), token=token_of(ctx))
    security_group_rules.delete_rule(ctx.backend.network, found, token=token_of(ctx))
    return Reply(202)


def _new_rule(asked: Mapping[str, Any]) -> NewRule:
    """Check the fields that the schema does not check, and return the new rule. Raises: InvalidRequest."""
    source, protocol = asked.get("group_id"), asked.get("ip_protocol")
    low, high = asked.get("from_port"), asked.get("to_port")
    cidr = _cidr(asked.get("cidr")) if source is None else None
    if source is not None and low is None and high is None:
        low, high = _whole_range(protocol)
    if not protocol or low is None or high is None:
        if source is None:
            raise InvalidRequest("Not enough parameters to build a valid rule.")
        return NewRule(source_group_id=source)
    low, high = _range(str(protocol), low, high)
    return NewRule(protocol=str(protocol), from_port=low, to_port=high, cidr=cidr, source_group_id=source)


def _whole_range(protocol: object) -> tuple[int, int] | tuple[None, None]:
    kind = str(protocol or "").upper()
    if kind in HAVE_PORTS:
        return ALL_PORTS
    return ANY_ICMP if kind == _ICMP else (None, None)


def _range(protocol: str, low: Any, high: Any) -> tuple[int, int]:
    kind = protocol.upper()
    try:
        low, high = int(low), int(high)
    except (TypeError, ValueError):
        what = "Type and Code must be integers for ICMP protocol type"
        raise InvalidRequest(
            f"Invalid input received: {what if kind == _ICMP else 'To and From ports must be integers'}"
        ) from None
    if kind not in {*HAVE_PORTS, _ICMP}:
        raise InvalidRequest(f"Invalid IP protocol {protocol}.")
    wrong = ""
    if kind == _ICMP:
        if not all(ANY_ICMP[0] <= each <= _LARGEST_ICMP for each in (low, high)):
            wrong = "For ICMP, the type:code must be valid"
    elif low > high:
        wrong = "Former value cannot be greater than the later"
    elif low < ALL_PORTS[0] or high > ALL_PORTS[1]:
        wrong = f"Valid {kind} ports should be between 1-65535"
    if wrong:
        raise InvalidRequest(f"Invalid port range {low}:{high}. {wrong}")
    return low, high


def _cidr(asked: Any) -> str:
    """Return the network of a rule, all of IPv4 by default. Raises: InvalidRequest."""
    if not asked:
        return ANYWHERE
    text = unquote(asked) if isinstance(asked, str) else ""
    network = network_of_address(text)
    if network is None or not text.partition("/")[2]:
        raise InvalidRequest(f"{asked} is not a valid IP network.")
    if network.prefixlen == 0 and int(ip_address(text.partition("/")[0])):
        raise InvalidRequest(f"Bad prefix for network in cidr {text}")
    return text


ROUTES: Routes = {
    _ALL: {"POST": Endpoint(create_rule, body=schemas.RULE, until=_LAST)},
    _ONE: {"DELETE": Endpoint(delete_rule, until=_LAST)},
}
