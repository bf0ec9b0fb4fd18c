# SPDX-License-Identifier: Apache-2.0
"""Schemas of new saved plans, of the list of plans, and of the requests that change the state of a plan."""

from kilonova.api.operator.schemas.plans import DRAIN, MOST_HOSTS
from kilonova.api.schemas.queries import PAGE
from kilonova.api.schemas.types import JSONDict, query
from kilonova.api.validation import Schemas
from kilonova.model.saved_plan import PlanState

_UUID: JSONDict = {"type": "string", "pattern": "^[0-9a-fA-F-]{36}$"}
_EVACUATE: JSONDict = {
    "type": "object",
    "properties": {
        "hosts": {
            "type": "array",
            "items": {"type": "string", "minLength": 1, "maxLength": 255},
            "minItems": 1,
            "maxItems": MOST_HOSTS,
        }
    },
    "required": ["hosts"],
    "additionalProperties": False,
}
NEW = Schemas(
    {
        (1, 0): {
            "type": "object",
            "properties": {"drain": DRAIN.by_version[(1, 0)], "evacuate": _EVACUATE, "job": _UUID},
            "minProperties": 1,
            "maxProperties": 1,
            "additionalProperties": False,
        }
    }
)
LIST = Schemas(
    {(1, 0): query({**PAGE, "marker": _UUID, "state": {"enum": [each.value for each in PlanState]}}, extra=False)}
)
SHOW = Schemas({(1, 0): query({"moves": {"enum": ["true", "false"]}}, extra=False)})
#: Schema of the bodies of apply, pause, resume and cancel, which must be empty.
ACT = Schemas({(1, 0): {"type": ["object", "null"], "additionalProperties": False}})
