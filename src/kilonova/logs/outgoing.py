# SPDX-License-Identifier: Apache-2.0
"""Log what other services were asked, with their request ids, so that their logs can be read beside ours."""

import logging
from collections.abc import Mapping

from kilonova.logs.request_context import HEADER

_FAILURE = 500


def tell(log: logging.Logger, service: str, method: str, path: str, status: int, headers: Mapping[str, str]) -> None:
    """Log an answer: at level debug, or at level info where the service failed."""
    level = logging.INFO if status >= _FAILURE else logging.DEBUG
    if log.isEnabledFor(level):
        theirs = headers.get(HEADER) or headers.get(HEADER.lower()) or "without a request id"
        log.log(level, "%s of %s was answered %d by %s: %s", method, path.partition("?")[0], status, service, theirs)
