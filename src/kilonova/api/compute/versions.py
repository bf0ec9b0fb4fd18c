# SPDX-License-Identifier: Apache-2.0
"""Version discovery. Open to everyone: clients read it before they have a token."""

from typing import Any

from kilonova.api.compute import json_home
from kilonova.api.http import Context, Endpoint, Reply, Request, Routes
from kilonova.api.microversion import Version

MIN_VERSION = Version(2, 1)
MAX_VERSION = Version(2, 104)
_VARIES = {"Vary": "Accept, OpenStack-API-Version, X-OpenStack-Nova-API-Version"}


def list_versions(ctx: Context, request: Request) -> Reply:
    """GET /.  Every API version with its range."""
    del ctx
    legacy = _view(request, "v2.0", "DEPRECATED", "", "", "2011-01-21T11:33:21Z")
    return Reply(200, {"versions": [legacy, _current(request)]})


def show_version(request: Request) -> dict[str, Any]:
    """Return the one version, with its media types."""
    documentation = {"rel": "describedby", "type": "text/html", "href": "https://docs.openstack.org/api-ref/compute/"}
    version = _current(request)
    return {
        "version": {
            **version,
            "links": [*version["links"], documentation],
            "media-types": [{"base": "application/json", "type": "application/vnd.openstack.compute+json;version=2.1"}],
        }
    }


def _current(request: Request) -> dict[str, Any]:
    return _view(request, "v2.1", "CURRENT", str(MAX_VERSION), str(MIN_VERSION), "2013-07-23T11:33:21Z")


def _view(request: Request, name: str, status: str, version: str, minimum: str, updated: str) -> dict[str, Any]:
    return {
        "id": name,
        "status": status,
        "version": version,
        "min_version": minimum,
        "updated": updated,
        "links": [{"rel": "self", "href": f"{request.root_url}/{'v2' if name == 'v2.0' else name}/"}],
    }


def routes_of(resources: Routes) -> Routes:
    """Return the routes of discovery; ``resources`` are the other ones, of which JSON Home tells."""

    def show(ctx: Context, request: Request) -> Reply:
        """GET /v2.1.  The version, or what there is below it for who asks for JSON Home (Kilonova's own)."""
        del ctx
        if json_home.is_wanted(request):
            return Reply(200, json_home.document(resources, request), {"Content-Type": json_home.MEDIA_TYPE, **_VARIES})
        return Reply(200, show_version(request), _VARIES)

    return {"/": {"GET": Endpoint(list_versions)}, "/v2.1": {"GET": Endpoint(show)}, "/v2.1/": {"GET": Endpoint(show)}}
