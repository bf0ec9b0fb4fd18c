# SPDX-License-Identifier: Apache-2.0
"""The map of hosts with its live updates, the same as a table, and one host."""

import asyncio
from typing import Any

import falcon
import falcon.asgi
import orjson

from kilonova.dashboard.upstream.host_map import DISABLED, DOWN, LABELS, HostMap
from kilonova.dashboard.web.export import send_csv, send_json
from kilonova.dashboard.web.live import HostFeed, TooManyStreams
from kilonova.dashboard.web.site import Site, is_fragment

_PAGE, _SERVERS = 200, 100
_STATES = {DISABLED: "disabled", DOWN: "down"}


class Hosts:
    """/hosts: the map; ``?as=table``: a table."""

    def __init__(self, site: Site, feed: HostFeed) -> None:
        self._site = site
        self._feed = feed

    async def on_get(self, req: falcon.asgi.Request, resp: falcon.asgi.Response) -> None:
        """GET: the page."""
        hosts = await self._feed.present(self._site.session(req))
        classes = [(name, LABELS.get(name, name)) for name in hosts.classes]
        if req.get_param("as") != "table":
            self._site.show(req, resp, "hosts.html", summary=hosts.summary(), classes=classes)
            return
        page = max(0, req.get_param_as_int("page", min_value=0, max_value=10**6) or 0)
        rows = rows_of(hosts)
        last = max(0, len(rows) - 1) // _PAGE
        shown = rows[page * _PAGE : (page + 1) * _PAGE]
        self._site.show(
            req, resp, "hosts_table.html", rows=shown, classes=classes, page=page, last=last, count=len(rows)
        )


class HostExport:
    """/hosts.csv and /hosts.json."""

    def __init__(self, site: Site, feed: HostFeed) -> None:
        self._site = site
        self._feed = feed

    async def on_get(self, req: falcon.asgi.Request, resp: falcon.asgi.Response) -> None:
        """GET: all hosts."""
        rows = [_flat(row) for row in rows_of(await self._feed.present(self._site.session(req)))]
        (send_csv if req.path.endswith(".csv") else send_json)(resp, "hosts", rows)


class MapColumns:
    """/hosts/map: the columns of the map, for its script."""

    def __init__(self, site: Site, feed: HostFeed) -> None:
        self._site = site
        self._feed = feed

    async def on_get(self, req: falcon.asgi.Request, resp: falcon.asgi.Response) -> None:
        """GET: all hosts as columns."""
        session = self._site.session(req)
        hosts, aggregates = await asyncio.gather(self._feed.present(session), self._feed.aggregates(session))
        resp.content_type, resp.data = "application/json", orjson.dumps(hosts.as_columns(aggregates))


class Events:
    """/events: a stream of changes of the map."""

    def __init__(self, site: Site, feed: HostFeed) -> None:
        self._site = site
        self._feed = feed

    async def on_get(self, req: falcon.asgi.Request, resp: falcon.asgi.Response) -> None:
        """GET: server-sent events until the session ends."""
        session = self._site.session(req)
        if not session.may_operate:
            raise falcon.HTTPForbidden(description="The map is for operators.")
        events = self._feed.events(session)
        try:
            first = await anext(events)
        except TooManyStreams:
            raise falcon.HTTPTooManyRequests(description="Too many pages are open.") from None
        resp.set_header("X-Accel-Buffering", "no")

        async def rest() -> Any:
            yield first
            async for event in events:
                yield event

        resp.sse = rest()


class Host:
    """/hosts/{name}: one host, as a page or as a panel beside the map."""

    def __init__(self, site: Site, feed: HostFeed) -> None:
        self._site = site
        self._feed = feed

    async def on_get(self, req: falcon.asgi.Request, resp: falcon.asgi.Response, name: str) -> None:
        """GET: the host. Errors: 404."""
        hosts = await self._feed.present(self._site.session(req))
        rows = hosts.rows_of(name)
        if not rows:
            raise falcon.HTTPNotFound(description=f"There is no host {name}.")
        agents, servers, aggregates = await asyncio.gather(
            self._site.operator(req, "/hosts", {"host": name}),
            self._site.compute(req, "/servers/detail", {"host": name, "all_tenants": 1, "limit": _SERVERS}),
            self._site.compute(req, "/os-aggregates"),
        )
        self._site.show(
            req,
            resp,
            "host_panel.html" if is_fragment(req) else "host.html",
            host=name,
            rows=[_row(hosts, row) for row in rows],
            agent=next(iter(agents["hosts"]), None),
            servers=servers["servers"],
            more=bool(servers.get("servers_links")),
            aggregates=[each["name"] for each in aggregates["aggregates"] if name in each["hosts"]],
        )


def rows_of(hosts: HostMap) -> list[dict[str, Any]]:
    """Return a row for each hypervisor, in the order of their names."""
    order = sorted(range(len(hosts.hosts)), key=lambda row: (hosts.hosts[row], hosts.nodes[row]))
    return [_row(hosts, row) for row in order]


def _row(hosts: HostMap, row: int) -> dict[str, Any]:
    return {
        "host": hosts.hosts[row],
        "node": hosts.nodes[row],
        "zone": hosts.zones[row],
        "state": _STATES.get(hosts.state[row], "up"),
        "servers": hosts.servers[row],
        "use": {
            name: (each["used"][row], each["capacity"][row])
            for name in hosts.classes
            if (each := hosts.resources[name])["capacity"][row]
        },
    }


def _flat(row: dict[str, Any]) -> dict[str, Any]:
    flat = {name: value for name, value in row.items() if name != "use"}
    for name, (used, capacity) in row["use"].items():
        flat[f"{name} used"], flat[f"{name} capacity"] = used, capacity
    return flat
