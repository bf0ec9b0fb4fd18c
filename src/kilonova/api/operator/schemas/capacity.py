# SPDX-License-Identifier: Apache-2.0
"""Schemas of the body of POST /operator/v1/capacity, and of the parameters of jobs of the same name."""

from kilonova.api.operator.schemas.explain import FLAVOR, REQUEST, TEXT
from kilonova.api.schemas.types import JSONDict
from kilonova.api.validation import Schemas

MOST_FLAVORS = 100
MOST_FLAVORS_OF_JOB = 1000
_NAMED_FLAVOR: JSONDict = {**FLAVOR, "required": ["name", "vcpus", "ram"]}


def _asked(most: int) -> Schemas:
    flavors = {"type": "array", "items": {"anyOf": [TEXT, _NAMED_FLAVOR]}, "minItems": 1, "maxItems": most}
    properties = {**REQUEST, "flavors": flavors}
    return Schemas({(1, 0): {"type": "object", "properties": properties, "additionalProperties": False}})


CAPACITY = _asked(MOST_FLAVORS)
CAPACITY_JOB = _asked(MOST_FLAVORS_OF_JOB)
