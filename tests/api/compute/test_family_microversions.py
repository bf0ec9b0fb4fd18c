# SPDX-License-Identifier: Apache-2.0
"""Microversions of routes and actions, listed by hand from the history of the API."""

from api.access_world import ENDPOINTS
from kilonova.api.compute.removed import gone
from kilonova.api.microversion import Version

_SERVER = "/servers/{server_id}"
#: What came later: first microversion → routes, actions in brackets.
SINCE = {
    "2.6": [f"POST {_SERVER}/remote-consoles"],
    "2.17": [f"POST {_SERVER}/action trigger_crash_dump"],
    "2.23": [f"GET {_SERVER}/migrations", f"GET {_SERVER}/migrations/{{migration_id}}"],
    "2.24": [f"DELETE {_SERVER}/migrations/{{migration_id}}"],
    "2.26": [
        *(f"{method} {_SERVER}/tags" for method in ("GET", "PUT", "DELETE")),
        *(f"{method} {_SERVER}/tags/{{tag}}" for method in ("GET", "PUT", "DELETE")),
    ],
    "2.55": ["PUT /flavors/{flavor_id}"],
    "2.78": [f"GET {_SERVER}/topology"],
    "2.81": ["POST /os-aggregates/{aggregate_id}/images"],
    "2.97": [
        *(f"{method} {_SERVER}/shares" for method in ("GET", "POST")),
        *(f"{method} {_SERVER}/shares/{{share_id}}" for method in ("GET", "DELETE")),
    ],
}
#: What is gone: last microversion → routes.
UNTIL = {
    "2.5": [f"POST {_SERVER}/action os-get{kind}Console" for kind in ("VNC", "SPICE", "RDP", "Serial")],
    "2.35": [
        *(f"GET /{name}" for name in ("images", "images/detail", "images/{image_id}")),
        "DELETE /images/{image_id}",
        *(f"GET /os-{name}" for name in ("networks", "tenant-networks", "floating-ips", "security-groups", "volumes")),
        *(f"GET /os-{name}" for name in ("snapshots", "baremetal-nodes", "volumes/detail", "snapshots/detail")),
        *(f"GET /os-{name}/{{network_id}}" for name in ("networks", "tenant-networks")),
        "GET /os-baremetal-nodes/{absent_id}",
        *(
            f"{method} /os-{name}"
            for name in (
                "floating-ips/{floating_ip_id}",
                "security-groups/{security_group_id}",
                "volumes/{absent_id}",
                "snapshots/{absent_id}",
            )
            for method in ("GET", "DELETE")
        ),
        *(f"POST /os-{name}" for name in ("floating-ips", "security-groups", "volumes", "snapshots")),
        "PUT /os-security-groups/{security_group_id}",
        "GET /os-floating-ip-pools",
        "POST /os-security-group-rules",
        "DELETE /os-security-group-rules/{security_group_rule_id}",
    ],
    "2.38": [
        *(f"{method} /images/{{image_id}}/metadata" for method in ("GET", "POST", "PUT")),
        *(f"{method} /images/{{image_id}}/metadata/{{key}}" for method in ("GET", "PUT", "DELETE")),
    ],
    "2.42": [
        "GET /os-hosts",
        *(f"{method} /os-hosts/{{host_name}}" for method in ("GET", "PUT")),
        *(f"GET /os-hosts/{{host_name}}/{word}" for word in ("startup", "shutdown", "reboot")),
    ],
    "2.43": [
        f"POST {_SERVER}/action {name}" for name in ("addFixedIp", "removeFixedIp", "addFloatingIp", "removeFloatingIp")
    ],
    "2.52": ["GET /os-hypervisors/{hypervisor_id}/search", "GET /os-hypervisors/{hypervisor_id}/servers"],
    "2.87": ["GET /os-hypervisors/statistics", "GET /os-hypervisors/{hypervisor_id}/uptime"],
}


def ranges() -> dict[str, tuple[str | None, str | None]]:
    """Route → its first and last microversion, of those that have one."""

    def text(version: Version | None) -> str | None:
        return None if version is None else str(version)

    found = {
        key.removeprefix("compute ").replace("/v2.1/", "/", 1): each
        for key, each in ENDPOINTS.items()
        if key.startswith("compute ")
    }
    return {
        key: (text(each.since), text(each.until))
        for key, each in found.items()
        if (each.since or each.until) and each.handler is not gone
    }


def test_what_there_is_when() -> None:
    expected: dict[str, tuple[str | None, str | None]] = {}
    expected |= {key: (version, None) for version, keys in SINCE.items() for key in keys}
    expected |= {key: (None, version) for version, keys in UNTIL.items() for key in keys}
    assert ranges() == expected
