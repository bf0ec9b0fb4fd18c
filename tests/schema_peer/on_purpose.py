# SPDX-License-Identifier: Apache-2.0
"""Known differences from Nova's schemas, with their reasons."""

import re
from collections.abc import Set as AbstractSet

_TAKEN, _REFUSED, _EITHER = (True,), (False,), (True, False)
#: Method and route, field, whether Nova accepts what Kilonova rejects, and the reason.
_KNOWN = (
    (r".*", r".*\.(name|description|availability_zone)", _REFUSED, "letters beyond the basic plane, and lines"),
    (r"POST /flavors", r"flavor\.(ram|vcpus|disk|swap|OS-FLV-EXT-DATA:ephemeral)", _REFUSED, "bounds of the handler"),
    (r"PUT /os-quota.*", r"quota(_class)?_set\.\w+", _REFUSED, "the handler knows the bounds of numbers sent as text"),
    (r"POST /os-server-groups", r".*max_server_per_host", _EITHER, "the handler knows the bounds"),
    (r".*/action (rebuild|addFixedIp)", r".*(personality|networkId).*", _REFUSED, "refused by the handler"),
    (r"POST /servers( body)?|.*/action rebuild", r".*(user_data|networks|block_device|personality).*", _REFUSED,
     "refused by the handler: no base64, or a service that is not there"),
    (r"POST /servers", r"server\.(security_groups.*|block_device.*|networks.*|config_drive|(min|max)_count)", _EITHER,
     "volumes, networks and security groups are not there; the handler knows the bounds of counts"),
    (r"POST /servers", r".*:scheduler_hints\.(group|same_host|different_host|target_cell|different_cell.*)", _EITHER,
     "ids are UUIDs with hyphens, and hints about cells are not read"),
    (r"POST /servers", r"server\.(key_name|host|hypervisor_hostname)", _REFUSED, "the handler looks for it"),
    (r"GET /servers(/detail)?", r".*", _REFUSED, "empty filters match all, others are read by the handler"),
    (r"GET /servers(/detail)?", r"sort_dir", _TAKEN, "refused by Nova's handler, too"),
    (r"GET /(os-hypervisors|os-migrations|servers/{}/os-instance-actions).*",
     r"(hypervisor_hostname_pattern|limit|marker|changes-(since|before)|user_id|project_id)", _REFUSED,
     "times are read by the handler, and of a repeated parameter the last one counts"),
    (r"GET /os-migrations", r"(hidden|instance_uuid)", _TAKEN, "what matches nothing is refused"),
    (r"GET /images.*", r".*", _REFUSED, "an endpoint for older clients"),
    (r"GET /(os-quota-sets/{}/defaults|servers/{}/(tags|os-volume_attachments).*)", r"unknown", _TAKEN,
     "as for all others, no unknown parameters at the newest microversions"),
    (r".*(quota-sets|limits|keypairs).*", r".*(user_id|tenant_id)", _TAKEN, "longer than any id"),
    (r".*", r".*(imageRef|image_ref|share_id|cache\.id|server_uuid|cache)", _TAKEN, "ids are UUIDs with hyphens"),
    (r"POST /flavors", r"flavor\.id", _TAKEN, "no fractions as ids"),
    (r"POST /os-aggregates/{}/images", r"", _TAKEN, "no image twice"),
    (r".*TenantAccess", r".*tenant", _TAKEN, "ids of projects are letters, digits and hyphens"),
    (r".*SecurityGroup", r".*name", _TAKEN, "longer than any name; there are no security groups"),
    (r".*createBackup", r".*backup_type", _TAKEN, "longer than any property of an image"),
    (r".*getConsoleOutput", r".*length", _TAKEN, "more lines than there are"),
    (r".*getRDPConsole", r".*", _TAKEN, "gone with the hypervisor that had it"),
    (r".*(rebuild|unshelve|servers/{}|os-aggregates/{})", r".*(key_name|zone|host|aggregate\.name)", _TAKEN,
     "names that nothing can have"),
    (r".*unshelve", r".*availability_zone", _REFUSED, "letters beyond the basic plane"),
    (r"PUT /os-services/{}", r"disabled_reason", _TAKEN, "no white space at its ends"),
)  # fmt: skip
_ROUTES = tuple((re.compile(route), re.compile(field), taken) for route, field, taken, _ in _KNOWN)

#: Routes and places in responses: images without a time come from Glance, and host names are not UUIDs.
ANSWERS = frozenset(
    {
        ("GET /images/detail", "images.#.created"),
        ("GET /images/{}", "image.created"),
        ("GET /os-instance_usage_audit_log", "instance_usage_audit_logs.hosts_not_run.#"),
        ("GET /os-instance_usage_audit_log/{}", "instance_usage_audit_log.hosts_not_run.#"),
    }
)


def is_on_purpose(key: str, fields: AbstractSet[str], *, taken: bool) -> bool:
    """Return whether a difference is known. ``taken``: Nova accepts the sample and Kilonova rejects it."""
    judged = fields - {"server.networks"} or fields or {""}  # required in bodies of servers since 2.37
    return any(
        taken in which and route.fullmatch(key) and any(field.fullmatch(each) for each in judged)
        for route, field, which in _ROUTES
    )
