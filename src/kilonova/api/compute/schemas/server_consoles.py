# SPDX-License-Identifier: Apache-2.0
"""Schema of the console output action."""

from kilonova.api.schemas.types import MAX_INTEGER, body
from kilonova.api.validation import Schemas

#: ``length``: an integer or a string of digits; -1 and null mean all lines.
OUTPUT = Schemas(
    {
        (2, 1): body(
            "os-getConsoleOutput",
            {
                "length": {
                    "type": ["integer", "string", "null"],
                    "pattern": "^(-1|[0-9]+)$",
                    "maxLength": len(str(MAX_INTEGER)),
                    "minimum": -1,
                    "maximum": MAX_INTEGER,
                }
            },
        )
    }
)
