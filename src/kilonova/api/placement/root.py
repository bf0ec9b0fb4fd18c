# SPDX-License-Identifier: Apache-2.0
"""Version discovery. Open to everyone: clients read it before they have a token."""

from kilonova.api.http import Context, Endpoint, Reply, Request, Routes
from kilonova.api.microversion import Version
from kilonova.api.placement.requests import dated

MIN_VERSION = Version(1, 0)
MAX_VERSION = Version(1, 39)


def show_versions(ctx: Context, request: Request) -> Reply:
    """GET /.  The one version with its range."""
    del ctx
    version = {
        "id": f"v{MIN_VERSION}",
        "min_version": str(MIN_VERSION),
        "max_version": str(MAX_VERSION),
        "status": "CURRENT",
        # Relative: whatever proxies are in front, this is the same place.
        "links": [{"rel": "self", "href": ""}],
    }
    return dated(request, {"versions": [version]})


RULES = ()
ROUTES: Routes = {"/": {"GET": Endpoint(show_versions)}}
