# SPDX-License-Identifier: Apache-2.0
"""Log of requests to other OpenStack services. Each line has the id that the other service gave to the request."""

import logging
from collections.abc import Mapping

from kilonova.logs.request_context import HEADER

_FAILURE = 500


def tell(log: logging.Logger, service: str, method: str, path: str, status: int, headers: Mapping[str, str]) -> None:
    """Log the response of ``service`` at debug level, or at info level if its status is 500 or more."""
    level = logging.INFO if status >= _FAILURE else logging.DEBUG
    if log.isEnabledFor(level):
        theirs = headers.get(HEADER) or headers.get(HEADER.lower()) or "without a request id"
        log.log(level, "%s %s got status %d from %s: %s", method, path.partition("?")[0], status, service, theirs)
