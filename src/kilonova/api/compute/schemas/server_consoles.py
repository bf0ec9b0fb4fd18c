# SPDX-License-Identifier: Apache-2.0
"""What is asked of a server's console."""

from kilonova.api.schemas.types import MAX_INTEGER, body
from kilonova.api.validation import Schemas

#: -1 stands for all lines, as nothing does; digits in a string are accepted.
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
