# SPDX-License-Identifier: Apache-2.0
"""How the operator API answers: one version, Nova's fault bodies."""

from collections.abc import Iterable, Mapping
from typing import Any

import orjson

from kilonova.api import faults
from kilonova.api.http import Context, Endpoint, Reply, Request, Routes
from kilonova.api.microversion import Version
from kilonova.api.operator import decisions, explain, isolation, options
from kilonova.errors import InvalidRequest, KilonovaError

VERSION = Version(1, 0)
RESOURCES = (decisions, explain, isolation, options)
RULES = tuple(rule for resource in RESOURCES for rule in resource.RULES)


def _show_versions(ctx: Context, request: Request) -> Reply:
    """GET /.  The one version there is."""
    del ctx
    links = [{"rel": "self", "href": f"{request.root_url}/v1"}]
    return Reply(200, {"versions": [{"id": "v1.0", "status": "CURRENT", "links": links}]})


_ROUTES: Routes = {
    "/": {"GET": Endpoint(_show_versions)},
    "/v1": {"GET": Endpoint(_show_versions)},
    **{template: endpoints for resource in RESOURCES for template, endpoints in resource.ROUTES.items()},
}


class OperatorFamily:
    """Kilonova's own API for administrators."""

    name = "operator"
    routes: Routes = _ROUTES

    def version(self, headers: Mapping[str, str], path: str) -> Version:
        del headers, path
        return VERSION

    def version_headers(self, version: Version | None) -> dict[str, str]:
        del version
        return {}

    def fault_body(
        self, error: BaseException, status: int, message: str, version: Version | None, request_id: str
    ) -> Any:
        del error, version, request_id
        return faults.compute_fault(status, message, {})

    def fault_media_type(self, accept: str | None) -> str:
        del accept
        return "application/json"

    def needs_token(self, path: str, method: str) -> bool:
        del method
        return path.rstrip("/") not in {"", "/v1"}

    def decode_body(self, method: str, content_type: str | None, raw: bytes, version: Version) -> Any:
        del method, content_type, version
        if not raw:
            return None
        try:
            return orjson.loads(raw)
        except orjson.JSONDecodeError as error:
            raise InvalidRequest(f"Cannot understand JSON: {error}") from None

    def method_not_allowed(self, method: str, allowed: Iterable[str], version: Version) -> KilonovaError:
        del method, version
        return faults.HttpError(405, "The method is not allowed for this resource.", Allow=", ".join(sorted(allowed)))
