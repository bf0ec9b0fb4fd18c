# SPDX-License-Identifier: Apache-2.0
"""The overview: what needs attention, worst first. Members see their own servers and quotas."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

import falcon.asgi

from kilonova.dashboard.upstream.host_map import DOWN, LABELS, HostMap
from kilonova.dashboard.web.live import HostFeed
from kilonova.dashboard.web.site import Site
from kilonova.records import dataclass

_SHOWN_ERRORS = 10
_ZONE_CLASSES = ("VCPU", "MEMORY_MB")
#: Label, names in the limits of the compute API, and unit of each quota.
_QUOTAS = (
    ("Servers", "totalInstancesUsed", "maxTotalInstances", ""),
    ("vCPUs", "totalCoresUsed", "maxTotalCores", ""),
    ("Memory", "totalRAMUsed", "maxTotalRAMSize", "MiB"),
    ("Server groups", "totalServerGroupsUsed", "maxServerGroups", ""),
)


@dataclass(frozen=True, slots=True)
class Problem:
    """Something that needs attention. ``severity``: bad or warn. ``link``: the page that shows it, or empty."""

    severity: str
    text: str
    detail: str
    link: str


class Overview:
    """/overview."""

    def __init__(self, site: Site, feed: HostFeed) -> None:
        self._site = site
        self._feed = feed

    async def on_get(self, req: falcon.asgi.Request, resp: falcon.asgi.Response) -> None:
        """GET: the overview of the cloud, or of the project for members."""
        if self._site.session(req).may_operate:
            await self._of_cloud(req, resp)
        else:
            await self._of_project(req, resp)

    async def _of_cloud(self, req: falcon.asgi.Request, resp: falcon.asgi.Response) -> None:
        site, errors = self._site, {"status": "ERROR", "all_tenants": 1, "limit": _SHOWN_ERRORS + 1}
        health, hosts, stuck, failed = await asyncio.gather(
            site.operator(req, "/health"),
            self._feed.present(site.session(req)),
            site.operator(req, "/workflows", {"stuck": "true", "limit": _SHOWN_ERRORS}),
            site.compute(req, "/servers/detail", errors),
        )
        site.show(
            req,
            resp,
            "overview.html",
            problems=problems(health["health"], hosts, failed["servers"]),
            failed=failed["servers"][:_SHOWN_ERRORS],
            stuck=stuck["workflows"],
            health=health["health"],
            summary=hosts.summary(),
            totals=[(LABELS.get(name, name), name, hosts.total(name)) for name in hosts.classes[:5]],
            zones=zones_of(hosts),
        )

    async def _of_project(self, req: falcon.asgi.Request, resp: falcon.asgi.Response) -> None:
        limits, failed = await asyncio.gather(
            self._site.compute(req, "/limits"),
            self._site.compute(req, "/servers/detail", {"status": "ERROR", "limit": _SHOWN_ERRORS}),
        )
        self._site.show(
            req, resp, "my_overview.html", quotas=quotas_of(limits["limits"]["absolute"]), failed=failed["servers"]
        )


def problems(health: Mapping[str, Any], hosts: HostMap, failed: Sequence[Any]) -> list[Problem]:
    """Return what needs attention, worst first."""
    found = [
        Problem("bad", f"Check failed: {check['name']}", str(check["problem"]), "")
        for check in health["checks"]
        if not check["healthy"]
    ]
    down = [hosts.hosts[row] for row, state in enumerate(hosts.state) if state == DOWN]
    if down:
        found.append(Problem("bad", _counted(len(down), "host is", "hosts are", "down"), _some(down), "/hosts?q=down"))
    flows = health["workflows"] or {"stuck": 0, "awaiting_hosts": ()}
    if flows["stuck"]:
        text = _counted(flows["stuck"], "workflow is", "workflows are", "stuck")
        found.append(Problem("bad", text, "Retry or abandon them: kilonova workflows list --stuck", ""))
    if failed:
        many = f"More than {_SHOWN_ERRORS}" if len(failed) > _SHOWN_ERRORS else str(len(failed))
        text = f"{many} {'server is' if len(failed) == 1 else 'servers are'} in ERROR"
        names = _some([server["name"] for server in failed])
        found.append(Problem("bad", text, names, "/servers?status=ERROR&all=1"))
    if health["read_only"]:
        found.append(Problem("warn", "The cloud is read-only", "Requests that change something are refused.", ""))
    waiting = [f"{each['host']} ({each['workflows']})" for each in flows["awaiting_hosts"]]
    if waiting:
        found.append(Problem("warn", "Workflows wait for absent hosts", _some(waiting), ""))
    refused = [each["agent"] for each in health["refused_agents"]]
    if refused:
        found.append(
            Problem("warn", _counted(len(refused), "agent is", "agents are", "refused"), _some(refused), "/hosts")
        )
    return found


def zones_of(hosts: HostMap) -> list[dict[str, Any]]:
    """Return each availability zone with its hosts and its usage."""
    rows_of: dict[str, list[int]] = {}
    for row, zone in enumerate(hosts.zones):
        rows_of.setdefault(zone, []).append(row)
    return [
        {
            "name": zone,
            "hosts": len(rows),
            "down": sum(hosts.state[row] == DOWN for row in rows),
            "servers": sum(hosts.servers[row] for row in rows),
            "use": [(LABELS[name], hosts.total(name, rows)) for name in _ZONE_CLASSES if name in hosts.shares],
        }
        for zone, rows in sorted(rows_of.items())
    ]


def quotas_of(limits: Mapping[str, int]) -> list[dict[str, Any]]:
    """Return quotas with their use; an unlimited quota has the maximum None."""
    return [
        {"name": name, "used": limits[used], "most": None if limits.get(most, -1) < 0 else limits[most], "unit": unit}
        for name, used, most, unit in _QUOTAS
        if used in limits
    ]


def _counted(count: int, one: str, many: str, what: str) -> str:
    return f"{count:,} {one if count == 1 else many} {what}"


def _some(names: Sequence[str]) -> str:
    shown = ", ".join(names[:3])
    return f"{shown} and {len(names) - 3:,} more" if len(names) > 3 else shown
