# SPDX-License-Identifier: Apache-2.0
"""Schema of the body of POST /operator/v1/capacity."""

from kilonova.api.operator.schemas.explain import FLAVOR, REQUEST, TEXT
from kilonova.api.schemas.types import JSONDict
from kilonova.api.validation import Schemas

MOST_FLAVORS = 100
_NAMED_FLAVOR: JSONDict = {**FLAVOR, "required": ["name", "vcpus", "ram"]}
CAPACITY = Schemas(
    {
        (1, 0): {
            "type": "object",
            "properties": {
                **REQUEST,
                "flavors": {
                    "type": "array",
                    "items": {"anyOf": [TEXT, _NAMED_FLAVOR]},
                    "minItems": 1,
                    "maxItems": MOST_FLAVORS,
                },
            },
            "additionalProperties": False,
        }
    }
)
