# SPDX-License-Identifier: Apache-2.0
"""Capacity: how many more servers of each flavor fit, and what refuses the next one. For operators."""

from typing import Any

import falcon.asgi

from kilonova.dashboard.web.export import send_csv, send_json
from kilonova.dashboard.web.site import Site


class Capacity:
    """/capacity, /capacity.csv and /capacity.json."""

    def __init__(self, site: Site) -> None:
        self._site = site

    async def on_get(self, req: falcon.asgi.Request, resp: falcon.asgi.Response) -> None:
        """GET: all enabled flavors, or those that ``?flavor`` names."""
        flavors = req.get_param_as_list("flavor") or []
        image = req.get_param("image")
        body: dict[str, Any] = {**({"flavors": flavors} if flavors else {}), **({"image": image} if image else {})}
        found = await self._site.operator(req, "/capacity", body=body)
        reasons = {each["flavor"]: each["reasons"] for each in found["next"]}
        rows = [{"flavor": name, "fits": count, "next": reasons.get(name, [])} for name, count in found["fits"].items()]
        if req.path != "/capacity":
            flat = [
                {**row, "next": "; ".join(f"{each['rule']}: {each['reason']}" for each in row["next"])} for row in rows
            ]
            (send_csv if req.path.endswith(".csv") else send_json)(resp, "capacity", flat)
            return
        most = max((row["fits"] or 0 for row in rows), default=0)
        self._site.show(req, resp, "capacity.html", rows=rows, most=most, seq=found["seq"], image=image or "")
