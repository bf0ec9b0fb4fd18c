# SPDX-License-Identifier: Apache-2.0
"""Converts Neutron's error responses to Kilonova's errors. The messages are Neutron's own."""

from collections.abc import Mapping
from typing import Any

from kilonova.errors import (
    ConcurrentUpdate,
    Conflict,
    Forbidden,
    InvalidRequest,
    KilonovaError,
    NotFound,
    OverQuota,
    Unavailable,
)

_CLASSES: Mapping[int, type[KilonovaError]] = {
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    412: ConcurrentUpdate,
    413: OverQuota,
}
_NOT_FOUND = 404
_OVER_QUOTA = "OverQuota"


def error_of(status: int, body: Any) -> KilonovaError:
    """Return the error for a response. ``body``: its JSON, or None if it has none.

    A 404 without JSON is not Neutron's, but that of a proxy without Neutron: it does not mean that a resource is gone.
    """
    is_of_proxy = status == _NOT_FOUND and not isinstance(body, dict)
    if status in {401, 408, 429} or status >= 500 or status < 400 or is_of_proxy:
        return Unavailable(f"The network service answered {status}.", status=status)
    kind, message = _explanation(body)
    of_status = _CLASSES.get(status, InvalidRequest)
    found = OverQuota if kind == _OVER_QUOTA else of_status
    fields = {"type": kind} if kind else {}
    return found(message or f"The network service answered {status}.", **fields)


def _explanation(body: Any) -> tuple[str, str]:
    """Return Neutron's name of an error and its message; "" for what the body does not contain."""
    fault = body.get("NeutronError", body) if isinstance(body, dict) else None
    if isinstance(fault, str):
        return "", fault
    if not isinstance(fault, dict):
        return "", ""
    kind, message, detail = (str(fault.get(name) or "") for name in ("type", "message", "detail"))
    return kind, message or detail
