# SPDX-License-Identifier: Apache-2.0
"""Log records of a request."""

import logging

#: Request ids: of this service, and the global one that its client sent.
LOCAL = "req-0f6b2c1e-4e4b-4a83-9a53-5c1c7a1f6f10"
GLOBAL = "req-11111111-4e4b-4a83-9a53-5c1c7a1f6f10"


def record(message: str, *arguments: object, error: BaseException | None = None) -> logging.LogRecord:
    """Return a warning of the logger ``kilonova.thing``."""
    caught = None if error is None else (type(error), error, None)
    return logging.LogRecord("kilonova.thing", logging.WARNING, __file__, 7, message, arguments, caught)
