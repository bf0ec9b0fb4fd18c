# SPDX-License-Identifier: Apache-2.0
"""Known differences from Nova's schemas, with their reasons."""

import re
from collections.abc import Set as AbstractSet

_TAKEN, _REFUSED, _EITHER = (True,), (False,), (True, False)
#: Method and route, field, whether Nova accepts what Kilonova rejects, and the reason.
_KNOWN = (
    (r".*", r".*\.(name|description|availability_zone)", _REFUSED, "characters outside the BMP, and line breaks"),
    (r"POST /flavors", r"flavor\.(ram|vcpus|disk|swap|OS-FLV-EXT-DATA:ephemeral)", _REFUSED, "the handler checks"),
    (r"PUT /os-quota.*", r"quota(_class)?_set\.\w+", _REFUSED, "the handler checks numbers sent as text"),
    (r"POST /os-server-groups", r".*max_server_per_host", _EITHER, "the handler checks the bounds"),
    (r".*/action (rebuild|addFixedIp)", r".*(personality|networkId).*", _REFUSED, "rejected by the handler"),
    (r"POST /servers( body)?|.*/action rebuild", r".*(user_data|block_device|personality).*", _REFUSED,
     "rejected by the handler: invalid base64, or a missing service"),
    (r"POST /servers", r"server\.(block_device.*|config_drive|(min|max)_count)", _EITHER,
     "without volumes; the handler checks the bounds of counts"),
    (r"POST /servers", r".*:scheduler_hints\.(group|same_host|different_host|target_cell|different_cell.*)", _EITHER,
     "ids are UUIDs with hyphens, and hints about cells are ignored"),
    (r"POST /servers", r"server\.(key_name|host|hypervisor_hostname)", _REFUSED, "the handler checks that it exists"),
    (r"GET /servers(/detail)?", r".*", _REFUSED, "empty filters match all, others are parsed by the handler"),
    (r"GET /servers(/detail)?", r"sort_dir", _TAKEN, "rejected by Nova's handler, too"),
    (r"GET /(os-hypervisors|os-migrations|servers/{}/os-instance-actions).*",
     r"(hypervisor_hostname_pattern|limit|marker|changes-(since|before)|user_id|project_id)", _REFUSED,
     "the handler parses times, and the last value of a repeated parameter wins"),
    (r"GET /os-migrations", r"(hidden|instance_uuid)", _TAKEN, "values that cannot match are rejected"),
    (r"GET /images.*", r".*", _REFUSED, "a deprecated proxy API"),
    (r"GET /(os-quota-sets/{}/defaults|servers/{}/(tags|os-volume_attachments).*)", r"unknown", _TAKEN,
     "unknown parameters are rejected at the newest microversions, as in all other routes"),
    (r".*(quota-sets|limits|keypairs).*", r".*(user_id|tenant_id)", _TAKEN, "longer than any id"),
    (r".*", r".*(imageRef|image_ref|share_id|cache\.id|server_uuid|cache|networks\.(port|uuid)|(net|port|group)_id)",
     _TAKEN,
     "ids are UUIDs with hyphens"),
    (r"POST /flavors", r"flavor\.id", _TAKEN, "ids cannot be fractions"),
    (r"POST /os-aggregates/{}/images", r"", _TAKEN, "duplicate images"),
    (r".*TenantAccess", r".*tenant", _TAKEN, "ids of projects are letters, digits and hyphens"),
    (r".*SecurityGroup", r".*name", _TAKEN, "longer than any name"),
    (r".*createBackup", r".*backup_type", _TAKEN, "longer than any property of an image"),
    (r".*getConsoleOutput", r".*length", _TAKEN, "more lines than a log can have"),
    (r".*getRDPConsole", r".*", _TAKEN, "RDP consoles were removed with Hyper-V"),
    (r".*(rebuild|unshelve|servers/{}|os-aggregates/{})", r".*(key_name|zone|host|aggregate\.name)", _TAKEN,
     "impossible names"),
    (r".*unshelve", r".*availability_zone", _REFUSED, "characters outside the BMP"),
    (r"PUT /os-services/{}", r"disabled_reason", _TAKEN, "leading or trailing white space"),
)  # fmt: skip
_ROUTES = tuple((re.compile(route), re.compile(field), taken) for route, field, taken, _ in _KNOWN)

#: Routes and places in responses: images without a time come from Glance, host names are not UUIDs, and the validator
#: takes any text for a CIDR.
ANSWERS = frozenset(
    {
        ("GET /images/detail", "images.#.created"),
        ("GET /images/{}", "image.created"),
        ("GET /os-tenant-networks", "networks.#.cidr"),
        ("GET /os-tenant-networks/{}", "network.cidr"),
        ("GET /os-instance_usage_audit_log", "instance_usage_audit_logs.hosts_not_run.#"),
        ("GET /os-instance_usage_audit_log/{}", "instance_usage_audit_log.hosts_not_run.#"),
    }
)


def is_on_purpose(key: str, fields: AbstractSet[str], *, taken: bool) -> bool:
    """Return whether a difference is known. ``taken``: Nova accepts the sample and Kilonova rejects it."""
    judged = fields - {"server.networks"} or fields or {""}  # networks is required in bodies of servers since 2.37
    return any(
        taken in which and route.fullmatch(key) and any(field.fullmatch(each) for each in judged)
        for route, field, which in _ROUTES
    )
