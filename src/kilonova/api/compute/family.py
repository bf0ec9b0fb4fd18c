# SPDX-License-Identifier: Apache-2.0
"""Compute API: its routes and rules, microversions 2.1 … 2.104, and an optional project id in each path."""

from collections.abc import Mapping
from typing import Any

from kilonova.api import faults
from kilonova.api.compute import (
    aggregates,
    assisted_volume_snapshots,
    availability_zones,
    console_auth_tokens,
    extensions,
    flavor_access,
    flavor_extra_specs,
    flavors,
    floating_ip_pools,
    floating_ips,
    hosts,
    hypervisors,
    images,
    keypairs,
    limits,
    migrations,
    networks,
    quota_classes,
    quota_sets,
    removed,
    security_group_rules,
    security_groups,
    server_external_events,
    server_groups,
    services,
    tenant_networks,
    tenant_usage,
    usage_audit_log,
    versions,
    volume_proxies,
)
from kilonova.api.compute.servers import (
    actions,
    diagnostics,
    instance_actions,
    interfaces,
    ips,
    metadata,
    password,
    remote_consoles,
    servers,
    shares,
    tags,
    topology,
    volumes,
    volumes_boot,
)
from kilonova.api.compute.servers import (
    migrations as server_migrations,
)
from kilonova.api.compute.servers import (
    security_groups as server_security_groups,
)
from kilonova.api.compute.versions import MAX_VERSION, MIN_VERSION
from kilonova.api.http import Endpoint, Routes
from kilonova.api.microversion import Version, requested_version
from kilonova.api.nova_style import NovaStyle, read_json
from kilonova.errors import InvalidRequest

RESOURCES = (
    aggregates,
    assisted_volume_snapshots,
    availability_zones,
    console_auth_tokens,
    extensions,
    flavor_access,
    flavor_extra_specs,
    flavors,
    floating_ip_pools,
    floating_ips,
    hosts,
    hypervisors,
    images,
    instance_actions,
    interfaces,
    ips,
    keypairs,
    limits,
    migrations,
    networks,
    quota_classes,
    quota_sets,
    remote_consoles,
    removed,
    security_group_rules,
    security_groups,
    actions,
    diagnostics,
    server_external_events,
    server_groups,
    metadata,
    server_migrations,
    server_security_groups,
    password,
    shares,
    tags,
    topology,
    volumes,
    servers,
    services,
    tenant_networks,
    tenant_usage,
    usage_audit_log,
    volume_proxies,
    volumes_boot,
)
RULES = tuple(rule for resource in RESOURCES for rule in resource.RULES)
_JSON_TYPES = {"application/json", "application/vnd.openstack.compute+json"}


def _routes() -> Routes:
    routes: dict[str, Mapping[str, Endpoint]] = {}
    for resource in RESOURCES:
        for template, endpoints in resource.ROUTES.items():
            routes[f"/v2.1{template}"] = endpoints
            routes[f"/v2.1/{{project_id}}{template}"] = endpoints
    return {**versions.routes_of(routes), **routes}


class ComputeFamily(NovaStyle):
    """The compute API. Source: spec COMPUTE_API §8, §9."""

    name = "compute"
    routes: Routes = _routes()

    def version(self, headers: Mapping[str, str], path: str) -> Version:
        wanted = requested_version(headers.get("OpenStack-API-Version"), "compute")
        wanted = wanted or headers.get("X-OpenStack-Nova-API-Version")
        if wanted is None or path.rstrip("/") in versions.DISCOVERY:
            return MIN_VERSION
        if wanted == "latest":
            return MAX_VERSION
        try:
            version = Version.parse(wanted)
        except ValueError:
            raise InvalidRequest(
                f"API Version String {wanted} is of invalid format. Must be of format MajorNum.MinorNum."
            ) from None
        if not MIN_VERSION <= version <= MAX_VERSION:
            raise faults.HttpError(
                406,
                f"Version {version} is not supported by the API. Minimum is {MIN_VERSION}, maximum is {MAX_VERSION}.",
            )
        return version

    def version_headers(self, version: Version | None) -> dict[str, str]:
        used = version or MIN_VERSION
        return {
            "OpenStack-API-Version": f"compute {used}",
            "X-OpenStack-Nova-API-Version": str(used),
            "Vary": "OpenStack-API-Version, X-OpenStack-Nova-API-Version",
        }

    def needs_token(self, path: str, method: str) -> bool:
        del method
        return path.rstrip("/") not in versions.DISCOVERY

    def decode_body(self, method: str, content_type: str | None, raw: bytes, version: Version) -> Any:
        del version
        if method not in {"POST", "PUT", "PATCH"} or not raw:
            return None
        kind = (content_type or "text/plain").split(";")[0].strip().lower()
        if kind not in _JSON_TYPES and kind != "text/plain":
            raise faults.HttpError(415, f"Unsupported Content-Type {content_type}")
        return read_json(raw)
