# SPDX-License-Identifier: Apache-2.0
"""What if: where a server that does not exist would go, while the form is filled in. For operators."""

import asyncio
from collections.abc import Mapping
from typing import Any

import falcon.asgi

from kilonova.dashboard.upstream.cloud_api import Refused
from kilonova.dashboard.web.pictures import funnel
from kilonova.dashboard.web.site import Site, is_fragment

#: Fields of the form that are texts of the request.
_TEXTS = ("image", "availability_zone", "group", "project_id")
_MOST_SERVERS = 100


class WhatIf:
    """/what-if. The address of the page is that of the question."""

    def __init__(self, site: Site) -> None:
        self._site = site

    async def on_get(self, req: falcon.asgi.Request, resp: falcon.asgi.Response) -> None:
        """GET: the form with the answer; without a flavor, only the form. Errors of the request are shown beside it."""
        asked = {name: value for name in ("flavor", *_TEXTS, "count") if (value := req.get_param(name))}
        answer, refusal = None, ""
        if "flavor" in asked:
            count = req.get_param_as_int("count", min_value=1, max_value=_MOST_SERVERS) or 1
            try:
                answer = await self._site.operator(req, "/explain", {"limit": 0}, body=request_of(asked, count))
            except Refused as error:
                if error.status in {401, 403}:
                    raise
                refusal = error.message
        shown = {"asked": asked, "answer": None if answer is None else answer_of(answer), "refusal": refusal}
        if is_fragment(req):
            self._site.show(req, resp, "what_if_answer.html", **shown)
            return
        flavors, zones = await asyncio.gather(
            self._site.compute(req, "/flavors/detail", {"limit": 1000}),
            self._site.compute(req, "/os-availability-zone"),
        )
        self._site.show(
            req,
            resp,
            "what_if.html",
            flavors=sorted(flavors["flavors"], key=lambda each: (each["vcpus"], each["ram"], each["name"])),
            zones=sorted(zone["zoneName"] for zone in zones["availabilityZoneInfo"]),
            most=_MOST_SERVERS,
            **shown,
        )


def request_of(asked: Mapping[str, str], count: int) -> dict[str, Any]:
    """Return the body for the operator API."""
    return {"flavor": asked["flavor"], "count": count, **{name: asked[name] for name in _TEXTS if name in asked}}


def answer_of(found: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the page shows of an answer: the explained server's funnel and ranking, and smallest changes."""
    server = found["servers"][found["explained_server"] - 1]
    hosts = [each["chosen"] for each in found["servers"] if each["chosen"] is not None]
    return {
        "fits": found["fits"],
        "seq": found["seq"],
        "number": found["explained_server"],
        "server": server,
        "pieces": funnel(server["steps"]),
        "hosts": [(host, hosts.count(host)) for host in dict.fromkeys(hosts)],
        "misses": [
            {
                "text": "; ".join(change["text"] for change in miss["changes"]),
                "host": miss["host"],
                "fitting": miss["fitting"],
            }
            for miss in found["nearest_miss"]
        ],
        "unread": [each["text"] for each in found["unread"]],
    }
