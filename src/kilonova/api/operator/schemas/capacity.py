# SPDX-License-Identifier: Apache-2.0
"""Schemas of the body of POST /operator/v1/capacity, and of the parameters of jobs of the same name."""

from kilonova.api.operator.schemas.explain import FLAVOR, REQUEST, TEXT
from kilonova.api.schemas.types import JSONDict
from kilonova.api.validation import Schemas

MOST_FLAVORS = 100
MOST_FLAVORS_OF_JOB = 1000
MOST_SHARES = 1000
_FLAVOR: JSONDict = {"anyOf": [TEXT, {**FLAVOR, "required": ["name", "vcpus", "ram"]}]}
_MIXED: JSONDict = {
    "type": "object",
    "properties": {"flavor": _FLAVOR, "share": {"type": "integer", "minimum": 1, "maximum": MOST_SHARES}},
    "required": ["flavor", "share"],
    "additionalProperties": False,
}


def _asked(most: int) -> Schemas:
    several = {"type": "array", "minItems": 1, "maxItems": most}
    properties = {
        **REQUEST,
        "flavors": {**several, "items": _FLAVOR},
        "mix": {**several, "items": _MIXED},
        "by": {"enum": ["aggregate", "zone"]},
        "stranded": {"type": "boolean"},
    }
    return Schemas({(1, 0): {"type": "object", "properties": properties, "additionalProperties": False}})


CAPACITY = _asked(MOST_FLAVORS)
CAPACITY_JOB = _asked(MOST_FLAVORS_OF_JOB)
