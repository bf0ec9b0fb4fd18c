# SPDX-License-Identifier: Apache-2.0
"""Version discovery. Open to everyone: clients read it before they have a token."""

from typing import Any

from kilonova.api.http import Context, Endpoint, Reply, Request, Routes
from kilonova.api.microversion import Version

MIN_VERSION = Version(2, 1)
MAX_VERSION = Version(2, 104)


_CURRENT, _LEGACY = "v2.1", "v2.0"
#: Version → the path of its document.
_PATHS = {_CURRENT: "/v2.1/", _LEGACY: "/v2/"}
_MEDIA_TYPES = {_CURRENT: "2.1", _LEGACY: "2"}
#: What there is to see before a client has a token.
DISCOVERY = frozenset({"", *(path.rstrip("/") for path in _PATHS.values())})


def list_versions(ctx: Context, request: Request) -> Reply:
    """GET /.  Every API version with its range."""
    del ctx
    return Reply(200, {"versions": [_view(request, _LEGACY), _view(request, _CURRENT)]})


def show_version(ctx: Context, request: Request) -> Reply:
    """GET /v2.1.  The one version, with its media types."""
    del ctx
    return _document(request, _CURRENT)


def show_legacy_version(ctx: Context, request: Request) -> Reply:
    """GET /v2.  The version before that, of which there is no more than this document."""
    del ctx
    return _document(request, _LEGACY)


def _document(request: Request, name: str) -> Reply:
    documentation = {"rel": "describedby", "type": "text/html", "href": "https://docs.openstack.org/api-ref/compute/"}
    version, number = _view(request, name), _MEDIA_TYPES[name]
    media_type = {"base": "application/json", "type": f"application/vnd.openstack.compute+json;version={number}"}
    links = [*version["links"], documentation]
    return Reply(200, {"version": {**version, "links": links, "media-types": [media_type]}})


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


ROUTES: Routes = {
    "/": {"GET": Endpoint(list_versions)},
    **{path: {"GET": Endpoint(show_version)} for path in ("/v2.1", "/v2.1/")},
    **{path: {"GET": Endpoint(show_legacy_version)} for path in ("/v2", "/v2/")},
}
