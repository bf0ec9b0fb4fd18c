# SPDX-License-Identifier: Apache-2.0
"""JSON Home: a document that lists the resources below /v2.1, for clients that accept ``application/json-home``.

Nova has no such document. Source: draft-nottingham-json-home-03; names of relations are formed as in Keystone's
document.
"""

import re
from typing import Any
from urllib.parse import urlsplit

from falcon.util.mediatypes import best_match

from kilonova.api.http import Request, Routes

MEDIA_TYPE = "application/json-home"
_ROOT = "/v2.1/"
_NAMES = "https://docs.openstack.org/api/openstack-compute/2.1"
_VARIABLE = re.compile(r"{(\w+)}")


def is_wanted(request: Request) -> bool:
    """Whether the client prefers JSON Home to JSON. A client that accepts ``*/*`` gets JSON."""
    accept = request.headers.get("Accept")
    if not accept:
        return False
    try:
        return bool(best_match(["application/json", MEDIA_TYPE], accept) == MEDIA_TYPE)
    except ValueError:
        return False


def document(routes: Routes, request: Request) -> dict[str, Any]:
    """Return path and methods of each route. Routes that a later microversion removed are marked as deprecated."""
    prefix = urlsplit(request.root_url).path
    found: dict[str, Any] = {}
    for template, endpoints in routes.items():
        path = template.removeprefix(_ROOT)
        if path in {template, ""} or path.startswith("{project_id}"):
            continue  # skip version discovery, and duplicate paths that begin with a project id
        names = _VARIABLE.findall(path)
        where: dict[str, Any] = {"href": prefix + template}
        if names:
            variables = {name: f"{_NAMES}/param/{name}" for name in names}
            where = {"href-template": prefix + template, "href-vars": variables}
        hints: dict[str, Any] = {"allow": sorted(endpoints)}
        if all(endpoint.until is not None for endpoint in endpoints.values()):
            hints["status"] = "deprecated"
        found[f"{_NAMES}/rel/{_VARIABLE.sub(lambda match: match[1], path)}"] = {**where, "hints": hints}
    return {"resources": dict(sorted(found.items()))}
