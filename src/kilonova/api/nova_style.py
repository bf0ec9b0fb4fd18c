# SPDX-License-Identifier: Apache-2.0
"""Code shared by the compute and operator APIs: JSON bodies, and faults in Nova's format."""

from collections.abc import Iterable
from typing import Any

import orjson

from kilonova.api import faults
from kilonova.api.microversion import Version
from kilonova.errors import InvalidRequest, KilonovaError


class NovaStyle:
    """Methods of :class:`~kilonova.api.application.Family` that the compute and operator APIs share."""

    def fault_body(
        self, error: BaseException, status: int, message: str, version: Version | None, request_id: str
    ) -> Any:
        del error, version, request_id
        return faults.compute_fault(status, message)

    def fault_media_type(self, accept: str | None) -> str:
        del accept
        return "application/json"

    def method_not_allowed(self, method: str, allowed: Iterable[str], version: Version) -> KilonovaError:
        del method, version
        return faults.HttpError(405, "The method is not allowed for this resource.", Allow=", ".join(sorted(allowed)))


def read_json(raw: bytes) -> Any:
    """Return the decoded JSON body. Raises: InvalidRequest."""
    try:
        return orjson.loads(raw)
    except orjson.JSONDecodeError as error:
        raise InvalidRequest(f"Cannot understand JSON: {error}") from None
