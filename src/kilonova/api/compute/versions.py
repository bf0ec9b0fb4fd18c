# SPDX-License-Identifier: Apache-2.0
"""Version discovery of the compute API. It needs no token, because clients read it before they authenticate."""

from typing import Any

from kilonova.api.compute import json_home
from kilonova.api.http import Context, Endpoint, Reply, Request, Routes
from kilonova.api.microversion import Version

MIN_VERSION = Version(2, 1)
MAX_VERSION = Version(2, 104)
_VARIES = {"Vary": "Accept, OpenStack-API-Version, X-OpenStack-Nova-API-Version"}


_CURRENT, _LEGACY = "v2.1", "v2.0"
#: API version → path of its version document.
_PATHS = {_CURRENT: "/v2.1/", _LEGACY: "/v2/"}
_MEDIA_TYPES = {_CURRENT: "2.1", _LEGACY: "2"}
#: Paths that are readable without a token.
DISCOVERY = frozenset({"", *(path.rstrip("/") for path in _PATHS.values())})


def list_versions(ctx: Context, request: Request) -> Reply:
    """GET /.  Lists the API versions with their ranges of microversions."""
    del ctx
    return Reply(200, {"versions": [_view(request, _LEGACY), _view(request, _CURRENT)]})


def show_version(request: Request, name: str = _CURRENT) -> dict[str, Any]:
    """Return the version document of the API version ``name``."""
    documentation = {"rel": "describedby", "type": "text/html", "href": "https://docs.openstack.org/api-ref/compute/"}
    version, number = _view(request, name), _MEDIA_TYPES[name]
    media_type = {"base": "application/json", "type": f"application/vnd.openstack.compute+json;version={number}"}
    links = [*version["links"], documentation]
    return {"version": {**version, "links": links, "media-types": [media_type]}}


def show_legacy_version(ctx: Context, request: Request) -> Reply:
    """GET /v2.  Shows the version document of the legacy API, which has no other route."""
    del ctx
    return Reply(200, show_version(request, _LEGACY))


def _view(request: Request, name: str) -> dict[str, Any]:
    is_current = name == _CURRENT
    return {
        "id": name,
        "status": "CURRENT" if is_current else "DEPRECATED",
        "version": str(MAX_VERSION) if is_current else "",
        "min_version": str(MIN_VERSION) if is_current else "",
        "updated": "2013-07-23T11:33:21Z" if is_current else "2011-01-21T11:33:21Z",
        "links": [{"rel": "self", "href": f"{request.root_url}{_PATHS[name]}"}],
    }


def routes_of(resources: Routes) -> Routes:
    """Return the routes of version discovery. ``resources``: all other routes, which the JSON Home document lists."""

    def show(ctx: Context, request: Request) -> Reply:
        """GET /v2.1.  Shows the version document. Clients can request JSON Home instead, which Nova does not have."""
        del ctx
        if json_home.is_wanted(request):
            return Reply(200, json_home.document(resources, request), {"Content-Type": json_home.MEDIA_TYPE, **_VARIES})
        return Reply(200, show_version(request), _VARIES)

    return {
        "/": {"GET": Endpoint(list_versions)},
        **{path: {"GET": Endpoint(show)} for path in ("/v2.1", "/v2.1/")},
        **{path: {"GET": Endpoint(show_legacy_version)} for path in ("/v2", "/v2/")},
    }
