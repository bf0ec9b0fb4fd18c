# SPDX-License-Identifier: Apache-2.0
"""Version discovery. Open to everyone: clients read it before they have a token."""

from typing import Any

from kilonova.api.http import Context, Endpoint, Reply, Request, Routes
from kilonova.api.microversion import Version

MIN_VERSION = Version(2, 1)
MAX_VERSION = Version(2, 104)


def list_versions(ctx: Context, request: Request) -> Reply:
    """GET /.  Every API version with its range."""
    del ctx
    legacy = _view(request, "v2.0", "DEPRECATED", "", "", "2011-01-21T11:33:21Z")
    return Reply(200, {"versions": [legacy, _current(request)]})


def show_version(ctx: Context, request: Request) -> Reply:
    """GET /v2.1.  The one version, with its media types."""
    del ctx
    documentation = {"rel": "describedby", "type": "text/html", "href": "https://docs.openstack.org/api-ref/compute/"}
    version = _current(request)
    return Reply(
        200,
        {
            "version": {
                **version,
                "links": [*version["links"], documentation],
                "media-types": [
                    {"base": "application/json", "type": "application/vnd.openstack.compute+json;version=2.1"}
                ],
            }
        },
    )


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


ROUTES: Routes = {
    "/": {"GET": Endpoint(list_versions)},
    "/v2.1": {"GET": Endpoint(show_version)},
    "/v2.1/": {"GET": Endpoint(show_version)},
}
