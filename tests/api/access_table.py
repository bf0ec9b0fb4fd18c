# SPDX-License-Identifier: Apache-2.0
"""Who may use each route, written down by hand: the contract that the rules of policy are held to.

A key is what the family calls itself, the method, the route, and for routes of actions the action. The routes of the
compute API with a project in their path, and those under ``/os-volumes_boot``, are the same endpoints and are not
repeated.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from support.identity import ROLES

Roles = frozenset[str]

#: For requests that have none; where a table says nothing, POST and PUT send an empty object.
NO_BODY = ""

ANY: Roles = frozenset(ROLES)
READER: Roles = frozenset({"reader", "member", "manager", "admin"})
MEMBER: Roles = frozenset({"member", "manager", "admin"})
MANAGER: Roles = frozenset({"manager", "admin"})
ADMIN: Roles = frozenset({"admin"})
SERVICE: Roles = frozenset({"service"})


@dataclass(frozen=True)
class Access:
    """``home``: roles that pass with a token of the project that has what is asked for.

    ``elsewhere``: roles that pass with a token of another project; ``refused_elsewhere``: what the others get there.
    ``is_absent``: nobody has the like of it in this cloud, so 404 is what those get who pass.
    ``body`` and ``query`` are right as far as policy is concerned; ``path`` stands in for values of the route.
    """

    home: Roles
    elsewhere: Roles
    body: Any = None
    query: str = ""
    path: Mapping[str, str] | None = None
    refused_elsewhere: int = 403
    is_absent: bool = False


def anywhere(roles: Roles, body: Any = None, query: str = "", **path: str) -> Access:
    """Return the access to something that is no project's, or the caller's own: one project is as good as another."""
    return Access(roles, roles, body, query, path)


def of_home(roles: Roles, body: Any = None, **path: str) -> Access:
    """Return the access to something of one project, which for others does not exist."""
    return Access(roles, ADMIN, body, path=path, refused_elsewhere=404)


def absent_at_home(roles: Roles) -> Access:
    """Return the access to something that no server has, which others are told of the server itself."""
    return Access(roles, ADMIN, refused_elsewhere=404, is_absent=True)


def _live(host: str | None) -> Any:
    return {"os-migrateLive": {"host": host, "block_migration": "auto"}}


_ACTION = "compute POST /v2.1/servers/{server_id}/action"
_SOMETHING = "70a599e0-31e7-49b7-b260-868f441e862b"
_GROUP = {"security_group": {"name": "g", "description": ""}}
_GONE = {"flavor_id": "gone", "aggregate_id": "999999"}
_FLAVOR = {"name": "m1.tiny", "ram": 1, "vcpus": 1, "disk": 1}
_SERVER = {"name": "vm", "imageRef": "70a599e0-31e7-49b7-b260-868f441e862b", "flavorRef": "gone", "networks": "none"}
_UNKNOWN = "8a5b6c1c-0000-4000-8000-000000000000"
_LEAVE = {"leave_group": {"server_group": _UNKNOWN}}
_ON_FLAVOR = "compute POST /v2.1/flavors/{flavor_id}/action"
_ON_MIGRATION = "compute POST /v2.1/servers/{server_id}/migrations/{migration_id}/action"
_ON_AGGREGATE = "compute POST /v2.1/os-aggregates/{aggregate_id}/action"

COMPUTE: Mapping[str, Access] = {
    "compute GET /v2.1/os-aggregates": anywhere(ADMIN),
    "compute POST /v2.1/os-aggregates": anywhere(ADMIN, {"aggregate": {"name": "there"}}),
    "compute GET /v2.1/os-aggregates/{aggregate_id}": anywhere(ADMIN),
    "compute PUT /v2.1/os-aggregates/{aggregate_id}": anywhere(ADMIN, {"aggregate": {"name": "there"}}),
    "compute DELETE /v2.1/os-aggregates/{aggregate_id}": anywhere(ADMIN, **_GONE),
    "compute POST /v2.1/os-aggregates/{aggregate_id}/images": anywhere(
        ADMIN, {"cache": [{"id": "155d900f-4e14-4e4c-a73d-069cbf4541e6"}]}
    ),
    f"{_ON_AGGREGATE} add_host": anywhere(ADMIN, {"add_host": {"host": "gone"}}),
    f"{_ON_AGGREGATE} remove_host": anywhere(ADMIN, {"remove_host": {"host": "gone"}}),
    f"{_ON_AGGREGATE} set_metadata": anywhere(ADMIN, {"set_metadata": {"metadata": {"a": "b"}}}, **_GONE),
    "compute GET /v2.1/os-availability-zone": anywhere(ANY),
    "compute GET /v2.1/os-availability-zone/detail": anywhere(ADMIN),
    "compute GET /v2.1/flavors": anywhere(ANY),
    "compute POST /v2.1/flavors": anywhere(ADMIN, {"flavor": _FLAVOR}),
    "compute GET /v2.1/flavors/detail": anywhere(ANY),
    "compute GET /v2.1/flavors/{flavor_id}": anywhere(ANY),
    "compute PUT /v2.1/flavors/{flavor_id}": anywhere(ADMIN, {"flavor": {"description": "words"}}),
    "compute DELETE /v2.1/flavors/{flavor_id}": anywhere(ADMIN, **_GONE),
    "compute GET /v2.1/flavors/{flavor_id}/os-flavor-access": anywhere(ADMIN),
    f"{_ON_FLAVOR} addTenantAccess": anywhere(ADMIN, {"addTenantAccess": {"tenant": "p"}}, **_GONE),
    f"{_ON_FLAVOR} removeTenantAccess": anywhere(ADMIN, {"removeTenantAccess": {"tenant": "p"}}, **_GONE),
    "compute GET /v2.1/flavors/{flavor_id}/os-extra_specs": anywhere(READER),
    "compute POST /v2.1/flavors/{flavor_id}/os-extra_specs": anywhere(ADMIN, {"extra_specs": {"a": "b"}}),
    "compute GET /v2.1/flavors/{flavor_id}/os-extra_specs/{key}": anywhere(READER),
    "compute PUT /v2.1/flavors/{flavor_id}/os-extra_specs/{key}": anywhere(ADMIN, {"a": "b"}),
    "compute DELETE /v2.1/flavors/{flavor_id}/os-extra_specs/{key}": anywhere(ADMIN, **_GONE),
    "compute GET /v2.1/os-hypervisors": anywhere(ADMIN),
    "compute GET /v2.1/os-hypervisors/detail": anywhere(ADMIN),
    "compute GET /v2.1/os-hypervisors/statistics": anywhere(ADMIN),
    "compute GET /v2.1/os-hypervisors/{hypervisor_id}": anywhere(ADMIN),
    "compute GET /v2.1/os-hypervisors/{hypervisor_id}/uptime": anywhere(ADMIN),
    "compute GET /v2.1/os-hypervisors/{hypervisor_id}/search": anywhere(ADMIN),
    "compute GET /v2.1/os-hypervisors/{hypervisor_id}/servers": anywhere(ADMIN),
    "compute GET /v2.1/os-keypairs": anywhere(ANY),
    "compute POST /v2.1/os-keypairs": anywhere(ANY, {"keypair": {"name": "k", "public_key": "none"}}),
    "compute GET /v2.1/os-keypairs/{keypair_name}": anywhere(ANY),
    "compute DELETE /v2.1/os-keypairs/{keypair_name}": anywhere(ANY),
    "compute GET /v2.1/limits": anywhere(ANY),
    "compute GET /v2.1/extensions": anywhere(ANY),
    "compute GET /v2.1/extensions/{alias}": anywhere(ANY),
    "compute GET /v2.1/images": anywhere(ANY),
    "compute GET /v2.1/images/detail": anywhere(ANY),
    "compute GET /v2.1/images/{image_id}": anywhere(ANY),
    "compute DELETE /v2.1/images/{image_id}": anywhere(ANY),
    "compute GET /v2.1/images/{image_id}/metadata": anywhere(ANY),
    "compute POST /v2.1/images/{image_id}/metadata": anywhere(ANY, {"metadata": {"a": "b"}}),
    "compute PUT /v2.1/images/{image_id}/metadata": anywhere(ANY, {"metadata": {"a": "b"}}),
    "compute GET /v2.1/images/{image_id}/metadata/{key}": anywhere(ANY),
    "compute PUT /v2.1/images/{image_id}/metadata/{key}": anywhere(ANY, {"meta": {"a": "b"}}),
    "compute DELETE /v2.1/images/{image_id}/metadata/{key}": anywhere(ANY),
    "compute GET /v2.1/os-hosts": anywhere(ADMIN),
    "compute GET /v2.1/os-hosts/{host_name}": anywhere(ADMIN),
    "compute PUT /v2.1/os-hosts/{host_name}": anywhere(ADMIN, {"status": "enable"}),
    "compute GET /v2.1/os-hosts/{host_name}/startup": anywhere(ADMIN),
    "compute GET /v2.1/os-hosts/{host_name}/shutdown": anywhere(ADMIN),
    "compute GET /v2.1/os-hosts/{host_name}/reboot": anywhere(ADMIN),
    "compute GET /v2.1/os-instance_usage_audit_log": anywhere(ADMIN),
    "compute GET /v2.1/os-instance_usage_audit_log/{before}": anywhere(ADMIN),
    "compute GET /v2.1/os-simple-tenant-usage": anywhere(ADMIN),
    "compute GET /v2.1/os-simple-tenant-usage/{usage_project_id}": Access(READER, ADMIN),
    **{
        f"compute GET /v2.1/{path}": anywhere(READER)
        for path in (
            "os-networks",
            "os-networks/{network_id}",
            "os-tenant-networks",
            "os-tenant-networks/{network_id}",
            "os-floating-ips",
            "os-floating-ips/{floating_ip_id}",
            "os-security-groups",
            "os-security-groups/{security_group_id}",
            "os-volumes",
            "os-volumes/detail",
            "os-volumes/{absent_id}",
            "os-snapshots",
            "os-snapshots/detail",
            "os-snapshots/{absent_id}",
        )
    },
    **{
        f"compute {route}": anywhere(MEMBER)
        for route in (
            "POST /v2.1/os-floating-ips",
            "DELETE /v2.1/os-floating-ips/{floating_ip_id}",
            "DELETE /v2.1/os-security-groups/{security_group_id}",
            "DELETE /v2.1/os-security-group-rules/{security_group_rule_id}",
            "POST /v2.1/os-volumes",
            "DELETE /v2.1/os-volumes/{absent_id}",
            "POST /v2.1/os-snapshots",
            "DELETE /v2.1/os-snapshots/{absent_id}",
        )
    },
    "compute GET /v2.1/os-floating-ip-pools": anywhere(ANY),
    "compute POST /v2.1/os-security-groups": anywhere(MEMBER, _GROUP),
    "compute PUT /v2.1/os-security-groups/{security_group_id}": anywhere(MEMBER, _GROUP),
    "compute POST /v2.1/os-security-group-rules": anywhere(
        MEMBER, {"security_group_rule": {"parent_group_id": _SOMETHING}}
    ),
    "compute GET /v2.1/os-baremetal-nodes": anywhere(ADMIN),
    "compute GET /v2.1/os-baremetal-nodes/{absent_id}": anywhere(ADMIN),
    "compute GET /v2.1/os-quota-class-sets/{class_name}": anywhere(ADMIN),
    "compute PUT /v2.1/os-quota-class-sets/{class_name}": anywhere(ADMIN, {"quota_class_set": {}}),
    "compute GET /v2.1/os-quota-sets/{quota_project_id}": Access(READER, ADMIN),
    "compute PUT /v2.1/os-quota-sets/{quota_project_id}": anywhere(ADMIN, {"quota_set": {}}),
    "compute DELETE /v2.1/os-quota-sets/{quota_project_id}": anywhere(ADMIN),
    "compute GET /v2.1/os-quota-sets/{quota_project_id}/detail": Access(READER, ADMIN),
    "compute GET /v2.1/os-quota-sets/{quota_project_id}/defaults": anywhere(ANY),
    "compute GET /v2.1/os-server-groups": anywhere(READER),
    "compute POST /v2.1/os-server-groups": anywhere(
        MEMBER, {"server_group": {"name": "g", "policy": "affinity", "rules": {"max_server_per_host": 1}}}
    ),
    "compute GET /v2.1/os-server-groups/{server_group_id}": of_home(READER),
    "compute DELETE /v2.1/os-server-groups/{server_group_id}": of_home(MEMBER, server_group_id="@new_group"),
    "compute GET /v2.1/servers": anywhere(READER),
    "compute POST /v2.1/servers": anywhere(MEMBER, {"server": _SERVER}),
    "compute GET /v2.1/servers/detail": anywhere(READER),
    "compute GET /v2.1/servers/{server_id}": of_home(READER),
    "compute DELETE /v2.1/servers/{server_id}": of_home(MEMBER, server_id="@new_server"),
    "compute PUT /v2.1/servers/{server_id}": of_home(MEMBER, {"server": {"name": "vm"}}),
    "compute GET /v2.1/servers/{server_id}/metadata": of_home(READER),
    "compute POST /v2.1/servers/{server_id}/metadata": of_home(MEMBER, {"metadata": {"a": "b"}}),
    "compute PUT /v2.1/servers/{server_id}/metadata": of_home(MEMBER, {"metadata": {"a": "b"}}),
    "compute GET /v2.1/servers/{server_id}/metadata/{key}": of_home(READER, key="@item"),
    "compute PUT /v2.1/servers/{server_id}/metadata/{key}": of_home(MEMBER, {"meta": {"a": "b"}}),
    "compute DELETE /v2.1/servers/{server_id}/metadata/{key}": of_home(MEMBER, key="@item"),
    "compute GET /v2.1/servers/{server_id}/tags": of_home(READER),
    "compute PUT /v2.1/servers/{server_id}/tags": of_home(MEMBER, {"tags": ["t"]}),
    "compute DELETE /v2.1/servers/{server_id}/tags": of_home(MEMBER),
    "compute GET /v2.1/servers/{server_id}/tags/{tag}": of_home(READER, tag="@tag"),
    "compute PUT /v2.1/servers/{server_id}/tags/{tag}": of_home(MEMBER, NO_BODY),
    "compute DELETE /v2.1/servers/{server_id}/tags/{tag}": of_home(MEMBER, tag="@tag"),
    "compute GET /v2.1/servers/{server_id}/os-interface": of_home(READER),
    "compute POST /v2.1/servers/{server_id}/os-interface": of_home(MEMBER),
    "compute GET /v2.1/servers/{server_id}/os-interface/{port_id}": absent_at_home(READER),
    "compute DELETE /v2.1/servers/{server_id}/os-interface/{port_id}": absent_at_home(MEMBER),
    "compute GET /v2.1/servers/{server_id}/ips": of_home(READER),
    "compute GET /v2.1/servers/{server_id}/ips/{network}": absent_at_home(READER),
    "compute GET /v2.1/servers/{server_id}/os-security-groups": of_home(READER),
    "compute GET /v2.1/servers/{server_id}/os-volume_attachments": of_home(READER),
    "compute POST /v2.1/servers/{server_id}/os-volume_attachments": of_home(MEMBER),
    "compute GET /v2.1/servers/{server_id}/os-volume_attachments/{volume_id}": absent_at_home(READER),
    "compute PUT /v2.1/servers/{server_id}/os-volume_attachments/{volume_id}": absent_at_home(MEMBER),
    "compute DELETE /v2.1/servers/{server_id}/os-volume_attachments/{volume_id}": absent_at_home(MEMBER),
    "compute GET /v2.1/servers/{server_id}/os-server-password": of_home(READER),
    "compute DELETE /v2.1/servers/{server_id}/os-server-password": of_home(MEMBER),
    "compute GET /v2.1/servers/{server_id}/shares": of_home(READER),
    "compute POST /v2.1/servers/{server_id}/shares": of_home(MEMBER, {"share": {"share_id": _SOMETHING}}),
    "compute GET /v2.1/servers/{server_id}/shares/{share_id}": absent_at_home(READER),
    "compute DELETE /v2.1/servers/{server_id}/shares/{share_id}": absent_at_home(MEMBER),
    "compute GET /v2.1/servers/{server_id}/diagnostics": of_home(ADMIN),
    "compute GET /v2.1/servers/{server_id}/topology": of_home(READER),
    "compute POST /v2.1/servers/{server_id}/remote-consoles": of_home(
        MEMBER, {"remote_console": {"protocol": "vnc", "type": "novnc"}}
    ),
    f"{_ACTION} os-getVNCConsole": of_home(MEMBER, {"os-getVNCConsole": {"type": "novnc"}}),
    f"{_ACTION} os-getSPICEConsole": of_home(MEMBER, {"os-getSPICEConsole": {"type": "spice-html5"}}),
    f"{_ACTION} os-getRDPConsole": of_home(MEMBER, {"os-getRDPConsole": {"type": "rdp-html5"}}),
    f"{_ACTION} os-getSerialConsole": of_home(MEMBER, {"os-getSerialConsole": {"type": "serial"}}),
    "compute GET /v2.1/os-console-auth-tokens/{console_token}": anywhere(ADMIN | SERVICE),
    "compute POST /v2.1/os-server-external-events": anywhere(
        ADMIN | SERVICE, {"events": [{"name": "network-changed", "server_uuid": _SOMETHING}]}
    ),
    "compute POST /v2.1/os-assisted-volume-snapshots": anywhere(
        ADMIN | SERVICE,
        {"snapshot": {"volume_id": "v", "create_info": {"snapshot_id": "s", "type": "qcow2", "new_file": "f"}}},
    ),
    "compute DELETE /v2.1/os-assisted-volume-snapshots/{snapshot_id}": anywhere(ADMIN | SERVICE),
    f"{_ACTION} addSecurityGroup": of_home(MEMBER, {"addSecurityGroup": {"name": "g"}}),
    f"{_ACTION} removeSecurityGroup": of_home(MEMBER, {"removeSecurityGroup": {"name": "g"}}),
    f"{_ACTION} addFixedIp": of_home(MEMBER, {"addFixedIp": {"networkId": "n"}}),
    f"{_ACTION} removeFixedIp": of_home(MEMBER, {"removeFixedIp": {"address": "10.0.0.4"}}),
    f"{_ACTION} addFloatingIp": of_home(MEMBER, {"addFloatingIp": {"address": "10.0.0.4"}}),
    f"{_ACTION} removeFloatingIp": of_home(MEMBER, {"removeFloatingIp": {"address": "10.0.0.4"}}),
    f"{_ACTION} os-start": of_home(MEMBER, {"os-start": None}),
    f"{_ACTION} os-stop": of_home(MEMBER, {"os-stop": None}),
    f"{_ACTION} evacuate": of_home(ADMIN, {"evacuate": {}}),
    f"{_ACTION} rebuild": of_home(MEMBER, {"rebuild": {"imageRef": "3f0b7f2e-0a38-4d0a-bd0c-0a6b5a2f5f0e"}}),
    f"{_ACTION} pause": of_home(MEMBER, {"pause": None}),
    f"{_ACTION} unpause": of_home(MEMBER, {"unpause": None}),
    f"{_ACTION} suspend": of_home(MEMBER, {"suspend": None}),
    f"{_ACTION} resume": of_home(MEMBER, {"resume": None}),
    f"{_ACTION} lock": of_home(MEMBER, {"lock": None}, server_id="@locked_server"),
    f"{_ACTION} unlock": of_home(MEMBER, {"unlock": None}),
    f"{_ACTION} os-getConsoleOutput": of_home(MEMBER, {"os-getConsoleOutput": {}}),
    f"{_ACTION} rescue": of_home(MEMBER, {"rescue": None}),
    f"{_ACTION} unrescue": of_home(MEMBER, {"unrescue": None}),
    f"{_ACTION} changePassword": of_home(MEMBER, {"changePassword": {"adminPass": "secret"}}),
    f"{_ACTION} trigger_crash_dump": of_home(MEMBER, {"trigger_crash_dump": None}),
    f"{_ACTION} os-resetState": of_home(ADMIN, {"os-resetState": {"state": "active"}}),
    f"{_ACTION} injectNetworkInfo": of_home(ADMIN, {"injectNetworkInfo": None}),
    f"{_ACTION} resize": of_home(MEMBER, {"resize": {"flavorRef": "gone"}}),
    f"{_ACTION} confirmResize": of_home(MEMBER, {"confirmResize": None}),
    f"{_ACTION} revertResize": of_home(MEMBER, {"revertResize": None}),
    f"{_ACTION} migrate": of_home(MANAGER, {"migrate": None}),
    f"{_ACTION} os-migrateLive": of_home(MANAGER, _live(None)),
    f"{_ACTION} shelve": of_home(MEMBER, {"shelve": None}),
    f"{_ACTION} shelveOffload": of_home(ADMIN, {"shelveOffload": None}),
    f"{_ACTION} unshelve": of_home(MEMBER, {"unshelve": None}),
    f"{_ACTION} createImage": of_home(MEMBER, {"createImage": {"name": "image"}}),
    f"{_ACTION} createBackup": of_home(
        MEMBER, {"createBackup": {"name": "backup", "backup_type": "daily", "rotation": 1}}
    ),
    f"{_ACTION} restore": of_home(MEMBER, {"restore": None}),
    f"{_ACTION} forceDelete": of_home(MEMBER, {"forceDelete": None}, server_id="@new_server"),
    f"{_ACTION} reboot": of_home(MEMBER, {"reboot": {"type": "SOFT"}}),
    "compute GET /v2.1/servers/{server_id}/os-instance-actions": of_home(READER),
    "compute GET /v2.1/servers/{server_id}/os-instance-actions/{request_id}": of_home(READER),
    "compute GET /v2.1/servers/{server_id}/migrations": of_home(MANAGER),
    "compute GET /v2.1/servers/{server_id}/migrations/{migration_id}": of_home(ADMIN),
    "compute DELETE /v2.1/servers/{server_id}/migrations/{migration_id}": of_home(MANAGER),
    f"{_ON_MIGRATION} force_complete": of_home(MANAGER, {"force_complete": None}),
    "compute GET /v2.1/os-migrations": anywhere(MANAGER),
    "compute GET /v2.1/os-services": anywhere(ADMIN),
    "compute PUT /v2.1/os-services/{service_id}": anywhere(ADMIN, {"status": "enabled"}),
    "compute DELETE /v2.1/os-services/{service_id}": anywhere(ADMIN),
}

_INVENTORIES = {"inventories": {}, "resource_provider_generation": 99}
PLACEMENT: Mapping[str, Access] = {
    **{
        f"placement {route}": anywhere(ADMIN | SERVICE)
        for route in (
            "GET /resource_providers",
            "POST /resource_providers",
            "GET /resource_providers/{uuid}",
            "PUT /resource_providers/{uuid}",
            "DELETE /resource_providers/{uuid}",
            "GET /resource_providers/{uuid}/aggregates",
            "PUT /resource_providers/{uuid}/aggregates",
            "GET /resource_providers/{uuid}/allocations",
            "GET /resource_providers/{uuid}/inventories",
            "POST /resource_providers/{uuid}/inventories",
            "PUT /resource_providers/{uuid}/inventories",
            "DELETE /resource_providers/{uuid}/inventories",
            "GET /resource_providers/{uuid}/inventories/{resource_class}",
            "PUT /resource_providers/{uuid}/inventories/{resource_class}",
            "DELETE /resource_providers/{uuid}/inventories/{resource_class}",
            "GET /resource_providers/{uuid}/traits",
            "PUT /resource_providers/{uuid}/traits",
            "DELETE /resource_providers/{uuid}/traits",
            "GET /resource_providers/{uuid}/usages",
            "GET /resource_classes",
            "POST /resource_classes",
            "GET /resource_classes/{name}",
            "PUT /resource_classes/{name}",
            "DELETE /resource_classes/{name}",
            "GET /traits",
            "GET /traits/{name}",
            "PUT /traits/{name}",
            "DELETE /traits/{name}",
            "GET /allocation_candidates",
            "POST /allocations",
            "GET /allocations/{consumer_uuid}",
            "PUT /allocations/{consumer_uuid}",
            "DELETE /allocations/{consumer_uuid}",
        )
    },
    "placement POST /reshaper": anywhere(SERVICE, {"inventories": {}, "allocations": {}}),
    "placement GET /usages": Access(READER | SERVICE, ADMIN | SERVICE, query="?project_id=@home"),
}

OPERATOR: Mapping[str, Access] = {
    "operator POST /v1/capacity": anywhere(ADMIN, {}),
    "operator GET /v1/changes": anywhere(ADMIN, query="?wait=0"),
    "operator GET /v1/decisions/{name}": anywhere(ADMIN),
    "operator POST /v1/drain": anywhere(ADMIN, {"hosts": ["node1"]}),
    "operator POST /v1/explain": anywhere(ADMIN, {"flavor": {"vcpus": 1, "ram": 1}}),
    "operator GET /v1/health": anywhere(ADMIN),
    "operator GET /v1/hosts": anywhere(ADMIN),
    "operator GET /v1/hosts/usage": anywhere(ADMIN),
    "operator GET /v1/hosts/{host}/images": anywhere(ADMIN, host=_UNKNOWN),
    "operator GET /v1/isolation": anywhere(ADMIN),
    "operator GET /v1/jobs": anywhere(ADMIN),
    "operator POST /v1/jobs": anywhere(ADMIN, {"kind": "capacity"}),
    "operator GET /v1/jobs/{uuid}": anywhere(ADMIN, uuid=_UNKNOWN),
    "operator DELETE /v1/jobs/{uuid}": anywhere(ADMIN, uuid=_UNKNOWN),
    "operator GET /v1/plans": anywhere(ADMIN),
    "operator POST /v1/plans": anywhere(ADMIN, {"drain": {"hosts": ["node1"]}}),
    "operator GET /v1/plans/{uuid}": anywhere(ADMIN, uuid=_UNKNOWN),
    "operator DELETE /v1/plans/{uuid}": anywhere(ADMIN, uuid=_UNKNOWN),
    "operator POST /v1/plans/{uuid}/apply": anywhere(ADMIN, uuid=_UNKNOWN),
    "operator POST /v1/plans/{uuid}/pause": anywhere(ADMIN, uuid=_UNKNOWN),
    "operator POST /v1/plans/{uuid}/resume": anywhere(ADMIN, uuid=_UNKNOWN),
    "operator POST /v1/plans/{uuid}/cancel": anywhere(ADMIN, uuid=_UNKNOWN),
    "operator GET /v1/metrics": anywhere(ADMIN),
    "operator GET /v1/openapi.json": anywhere(ANY),
    "operator GET /v1/options": anywhere(ADMIN),
    "operator POST /v1/preview": anywhere(ADMIN, {"hosts": {"node1": {"disabled": True}}}),
    "operator GET /v1/read-only": anywhere(ADMIN),
    "operator PUT /v1/read-only": anywhere(ADMIN, {"read_only": {"enabled": False}}),
    "operator GET /v1/rules": anywhere(ADMIN),
    "operator GET /v1/servers/count": anywhere(READER),
    "operator POST /v1/servers/{server_id}/leave-group": anywhere(ADMIN, _LEAVE, server_id=_UNKNOWN),
    "operator PUT /v1/servers/{server_id}/hints": anywhere(ADMIN, {"hints": {}}, server_id=_UNKNOWN),
    "operator GET /v1/stray-ports": anywhere(ADMIN),
    "operator POST /v1/stray-ports/remove": anywhere(ADMIN, {"remove": {"port": _UNKNOWN}}),
    "operator GET /v1/strays": anywhere(ADMIN),
    "operator POST /v1/strays/remove": anywhere(ADMIN, {"remove": {"host": "gone", "guest": "gone"}}),
    "operator GET /v1/workflows": anywhere(ADMIN),
    "operator GET /v1/workflows/{uuid}": anywhere(ADMIN),
    "operator POST /v1/workflows/{uuid}/retry": anywhere(ADMIN),
    "operator POST /v1/workflows/{uuid}/abandon": anywhere(ADMIN),
}

ROUTES: Mapping[str, Access] = {**COMPUTE, **PLACEMENT, **OPERATOR}

#: Routes that say more, or do more, for some: the same routes, asked for that.
PARTICULAR: Mapping[str, tuple[str, Access]] = {
    "servers of all projects": ("compute GET /v2.1/servers", anywhere(ADMIN, query="?all_tenants=1")),
    "details of all projects": ("compute GET /v2.1/servers/detail", anywhere(ADMIN, query="?all_tenants=1")),
    "servers sorted by host": ("compute GET /v2.1/servers", anywhere(ADMIN, query="?sort_key=host")),
    "deleted servers": ("compute GET /v2.1/servers", anywhere(ADMIN, query="?status=DELETED")),
    "a forced host": (
        "compute POST /v2.1/servers",
        anywhere(ADMIN, {"server": {**_SERVER, "availability_zone": "nova:node1"}}),
    ),
    "a requested host": ("compute POST /v2.1/servers", anywhere(ADMIN, {"server": {**_SERVER, "host": "node1"}})),
    "a migration to a host": (f"{_ACTION} migrate", of_home(ADMIN, {"migrate": {"host": "gone"}})),
    "a live migration to a host": (f"{_ACTION} os-migrateLive", of_home(ADMIN, _live("gone"))),
    "key pairs of others": ("compute GET /v2.1/os-keypairs", anywhere(ADMIN, query="?user_id=bob")),
    "a key pair of others": (
        "compute GET /v2.1/os-keypairs/{keypair_name}",
        anywhere(ADMIN, query="?user_id=bob"),
    ),
    "deleting a key pair of others": (
        "compute DELETE /v2.1/os-keypairs/{keypair_name}",
        anywhere(ADMIN, query="?user_id=bob"),
    ),
    "a key pair for others": (
        "compute POST /v2.1/os-keypairs",
        anywhere(ADMIN, {"keypair": {"name": "k", "public_key": "none", "user_id": "other-user"}}),
    ),
    "migrations of a project": ("compute GET /v2.1/os-migrations", Access(MANAGER, ADMIN, query="?project_id=@home")),
    "limits of a project": ("compute GET /v2.1/limits", Access(ANY, ADMIN, query="?tenant_id=@home")),
    "limits of a user": ("compute GET /v2.1/limits", anywhere(ADMIN, query="?user_id=bob")),
    "the use without a project": ("placement GET /usages", anywhere(ADMIN | SERVICE, query="?project_id=")),
}

#: What hosts use with a ticket, which is no token, and what the ticket has to allow. The route itself says for whom.
BY_TICKET: Mapping[str, str] = {
    "agents GET /v1/hosts/{host}/images/{image_id}/file": "read",
    "agents PUT /v1/hosts/{host}/images/{image_id}/file": "write",
}

#: What tells clients which versions there are, before they have a token.
DISCOVERY = frozenset(
    {
        "compute GET /",
        "compute GET /v2",
        "compute GET /v2/",
        "compute GET /v2.1",
        "compute GET /v2.1/",
        "placement GET /",
        "operator GET /",
        "operator GET /v1",
    }
)
