# SPDX-License-Identifier: Apache-2.0
"""The list of servers with the filters of the compute API, and one server with what happened to it."""

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import falcon
import falcon.asgi

from kilonova.dashboard.upstream.cloud_api import Refused
from kilonova.dashboard.web.export import send_csv, send_json
from kilonova.dashboard.web.pictures import funnel
from kilonova.dashboard.web.site import Site

_PAGE = 50
#: Query parameters of the page that are filters of the compute API, for all users and for operators.
_FILTERS, _OPERATOR_FILTERS = ("name", "status", "flavor"), ("host", "project_id")
STATUSES = (
    "ACTIVE", "BUILD", "DELETED", "ERROR", "HARD_REBOOT", "MIGRATING", "PASSWORD", "PAUSED", "REBOOT", "REBUILD",
    "RESCUE", "RESIZE", "REVERT_RESIZE", "SHELVED", "SHELVED_OFFLOADED", "SHUTOFF", "SOFT_DELETED", "SUSPENDED",
    "VERIFY_RESIZE",
)  # fmt: skip


class Servers:
    """/servers, /servers.csv and /servers.json."""

    def __init__(self, site: Site) -> None:
        self._site = site

    async def on_get(self, req: falcon.asgi.Request, resp: falcon.asgi.Response) -> None:
        """GET: a page of servers. Errors: those of the compute API's filters."""
        operates = self._site.session(req).may_operate
        names = (*_FILTERS, *(_OPERATOR_FILTERS if operates else ()))
        asked = {name: value for name in names if (value := req.get_param(name))}
        everyone = operates and bool(req.get_param("all"))
        query: dict[str, Any] = {**asked, "limit": _PAGE}
        if everyone or "host" in asked or "project_id" in asked:
            query["all_tenants"] = 1
        if marker := req.get_param("marker"):
            query["marker"] = marker
        answer = await self._site.compute(req, "/servers/detail", query)
        if req.path != "/servers":
            rows = [row_of(server) for server in answer["servers"]]
            (send_csv if req.path.endswith(".csv") else send_json)(resp, "servers", rows)
            return
        shown = {**asked, **({"all": "1"} if everyone else {})}
        self._site.show(
            req,
            resp,
            "servers.html",
            servers=answer["servers"],
            asked=shown,
            statuses=STATUSES,
            following=next_page(answer, shown),
            address=urlencode({**shown, **({"marker": marker} if marker else {})}),
            is_first=not marker,
            first=urlencode(shown),
        )


class Server:
    """/servers/{uuid}: one server."""

    def __init__(self, site: Site) -> None:
        self._site = site

    async def on_get(self, req: falcon.asgi.Request, resp: falcon.asgi.Response, uuid: str) -> None:
        """GET: the server, its addresses and its actions. Errors: 404."""
        path = f"/servers/{falcon.uri.encode_value(uuid)}"
        server, actions = await asyncio.gather(
            self._site.compute(req, path), self._site.compute(req, f"{path}/os-instance-actions")
        )
        latest = actions["instanceActions"][:5]
        events = await asyncio.gather(*(self._events(req, path, action["request_id"]) for action in latest))
        self._site.show(
            req,
            resp,
            "server.html",
            server=server["server"],
            actions=actions["instanceActions"],
            events={action["request_id"]: found for action, found in zip(latest, events, strict=True)},
        )

    async def _events(self, req: falcon.asgi.Request, path: str, request_id: str) -> list[Any]:
        with suppress(Refused):
            answer = await self._site.compute(req, f"{path}/os-instance-actions/{request_id}")
            found: list[Any] = answer["instanceAction"].get("events", [])
            return found
        return []


class Decision:
    """/servers/{uuid}/decision: why the scheduler chose the host of a server, or none."""

    def __init__(self, site: Site) -> None:
        self._site = site

    async def on_get(self, req: falcon.asgi.Request, resp: falcon.asgi.Response, uuid: str) -> None:
        """GET: the newest decision, or that of ``?n``. Errors: 404 if none is stored."""
        quoted = falcon.uri.encode_value(uuid)
        found = (await self._site.operator(req, f"/decisions/{quoted}"))["decisions"]
        number = min(req.get_param_as_int("n", min_value=0, max_value=10**6) or 0, len(found) - 1)
        server: Mapping[str, Any] | None = None
        with suppress(Refused):
            server = (await self._site.compute(req, f"/servers/{quoted}"))["server"]
        decision = found[number]
        self._site.show(
            req,
            resp,
            "decision.html",
            uuid=uuid,
            name=server["name"] if server else uuid,
            decision=decision,
            count=len(found),
            number=number,
            pieces=funnel(decision["steps"]),
        )


def row_of(server: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the list shows of a server."""
    return {
        "id": server["id"],
        "name": server["name"],
        "status": server["status"],
        "host": server.get("OS-EXT-SRV-ATTR:host") or "",
        "zone": server.get("OS-EXT-AZ:availability_zone") or "",
        "flavor": server["flavor"]["original_name"],
        "addresses": " ".join(each["addr"] for each in addresses_of(server)),
        "project": server["tenant_id"],
        "created": server["created"],
    }


def addresses_of(server: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return all addresses of a server."""
    return [each for addresses in server["addresses"].values() for each in addresses]


def next_page(answer: Mapping[str, Any], asked: Mapping[str, str]) -> str | None:
    """Return the query of the next page; None on the last one."""
    for link in answer.get("servers_links", ()):
        if link["rel"] == "next":
            (marker,) = parse_qs(urlsplit(link["href"]).query)["marker"]
            return urlencode({**asked, "marker": marker})
    return None
