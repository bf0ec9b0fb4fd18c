# SPDX-License-Identifier: Apache-2.0
"""Routes that Nova once forwarded to another service, and that end with microversion 2.35."""

import re
from collections.abc import Mapping
from typing import Any

from api.compute_cloud import Cloud
from kilonova.api.compute.removed import gone
from kilonova.api.http import Routes

UNKNOWN = "5b674f73-0000-4000-8000-000000000000"


def check_pages(cloud: Cloud, path: str) -> None:
    """Request pages of an empty list: unknown parameters are ignored, and bad values of known ones are refused."""
    member = cloud.member.at("2.35")
    assert member.get(f"{path}?limit=1&offset=0&anything=x").status == 200
    for query in ("limit=-1", "offset=-1", "limit=x"):
        answer = member.get(f"{path}?{query}")
        assert answer.status == 400
        assert query.partition("=")[0] in answer.fault[1]


def check_proxies(cloud: Cloud, routes: Routes, body: Mapping[str, Any] | None = None) -> None:
    """Request every route: lists are empty, single resources do not exist, and a new resource needs the service.

    ``body``: a valid body of the routes that have one.
    """
    for template, endpoints in routes.items():
        path = re.sub(r"{\w+}", UNKNOWN, template)
        for method, endpoint in endpoints.items():
            if endpoint.handler is gone:
                assert cloud.admin.at("2.104").send(method, path).status == 410
                continue
            answer = cloud.admin.at("2.35").send(method, path, body if endpoint.body else None)
            if "{" in template:
                assert answer.status == 404
            elif method == "GET":
                (listed,) = answer.body.values()
                assert (answer.status, listed) == (200, [])
            else:
                assert answer.status == 400
                assert "service is configured" in answer.fault[1]
            assert cloud.admin.at("2.36").send(method, path).status == 404
