# SPDX-License-Identifier: Apache-2.0
"""Placement API: its routes and rules, microversions 1.0 … 1.39, and faults in Placement's format."""

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any

from kilonova.api import faults
from kilonova.api.http import Endpoint, Routes
from kilonova.api.microversion import Version, requested_version
from kilonova.api.placement import (
    aggregates,
    allocation_candidates,
    allocations,
    inventories,
    policies,
    provider_traits,
    reshaper,
    resource_classes,
    resource_providers,
    root,
    traits,
    usages,
)
from kilonova.api.placement.requests import CONCURRENT_UPDATE, JSON, UNDEFINED, acceptable
from kilonova.api.placement.root import MAX_VERSION, MIN_VERSION
from kilonova.errors import ConcurrentUpdate, Forbidden, InvalidRequest, KilonovaError

RESOURCES = (
    root,
    aggregates,
    allocation_candidates,
    allocations,
    inventories,
    provider_traits,
    reshaper,
    resource_classes,
    resource_providers,
    traits,
    usages,
)
RULES = (*policies.BASE_RULES, *(rule for resource in RESOURCES for rule in resource.RULES))
_VERSION = re.compile(r"(\d+)\.(\d+)", re.ASCII)
_ERROR_CODES = Version(1, 23)
_DISCOVERY = ("", "/")


def _routes() -> Routes:
    routes: dict[str, Mapping[str, Endpoint]] = {}
    for resource in RESOURCES:
        routes.update(resource.ROUTES)
    return routes


class PlacementFamily:
    """The Placement API."""

    name = "placement"
    routes: Routes = _routes()

    def version(self, headers: Mapping[str, str], path: str) -> Version:
        del path
        return _version(headers.get("OpenStack-API-Version"))

    def version_headers(self, version: Version | None) -> dict[str, str]:
        headers = {"Vary": "openstack-api-version"}
        if version is not None:
            headers["OpenStack-API-Version"] = f"placement {version}"
        return headers

    def fault_body(
        self, error: BaseException, status: int, message: str, version: Version | None, request_id: str
    ) -> Any:
        if isinstance(error, Forbidden) and "rule" in error.fields:
            message = f"Policy does not allow {error.fields['rule']} to be performed."
        body: dict[str, Any] = {
            "status": status,
            "title": faults.title_of(status),
            "detail": message,
            "request_id": request_id,
        }
        if version is None and status == 406:
            body |= {"min_version": str(MIN_VERSION), "max_version": str(MAX_VERSION)}
        if version is not None and version >= _ERROR_CODES:
            body["code"] = _code_of(error)
        return {"errors": [body]}

    def fault_media_type(self, accept: str | None) -> str:
        if not accept or acceptable(JSON, accept):
            return JSON
        return "text/html" if acceptable("text/html", accept) else "text/plain"

    def needs_token(self, path: str, method: str) -> bool:
        del method
        return path not in _DISCOVERY

    def decode_body(self, method: str, content_type: str | None, raw: bytes, version: Version) -> Any:
        """Return the body without decoding it, since handlers decode bodies themselves. Raises: InvalidRequest."""
        del method, version
        if raw and not content_type:
            raise InvalidRequest("content-type header required when content-length > 0")
        return raw

    def method_not_allowed(self, method: str, allowed: Iterable[str], version: Version) -> KilonovaError:
        del version
        return faults.HttpError(
            405, f"The method {method} is not allowed for this resource.", Allow=", ".join(sorted(allowed))
        )


@lru_cache(maxsize=64)
def _version(header: str | None) -> Version:
    wanted = requested_version(header, "placement")
    if wanted is None:
        return MIN_VERSION
    if wanted == "latest":
        return MAX_VERSION
    numbers = _VERSION.fullmatch(wanted)
    if numbers is None:
        raise InvalidRequest(f"invalid version string: {wanted}")
    version = Version(int(numbers[1][:9]), int(numbers[2][:9]))
    if not MIN_VERSION <= version <= MAX_VERSION:
        raise faults.HttpError(406, f"Unacceptable version header: {wanted}")
    return version


def _code_of(error: BaseException) -> str:
    if isinstance(error, KilonovaError) and "placement_code" in error.fields:
        return str(error.fields["placement_code"])
    return CONCURRENT_UPDATE if isinstance(error, ConcurrentUpdate) else UNDEFINED
