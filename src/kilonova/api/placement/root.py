# SPDX-License-Identifier: Apache-2.0
"""Version discovery of the Placement API. It needs no token, because clients read it before they authenticate."""

from kilonova.api.http import Context, Endpoint, Reply, Request, Routes
from kilonova.api.microversion import Version
from kilonova.api.placement.requests import dated

MIN_VERSION = Version(1, 0)
MAX_VERSION = Version(1, 39)


def show_versions(ctx: Context, request: Request) -> Reply:
    """GET /.  Lists the only version with its range of microversions."""
    del ctx
    version = {
        "id": f"v{MIN_VERSION}",
        "min_version": str(MIN_VERSION),
        "max_version": str(MAX_VERSION),
        "status": "CURRENT",
        # a relative link is valid behind any proxy
        "links": [{"rel": "self", "href": ""}],
    }
    return dated(request, {"versions": [version]})


RULES = ()
ROUTES: Routes = {"/": {"GET": Endpoint(show_versions)}}
