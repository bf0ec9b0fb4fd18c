# SPDX-License-Identifier: Apache-2.0
"""Schemas of new saved plans, of the list of plans, and of the requests that change the state of a plan."""

from kilonova.api.operator.schemas.plans import DRAIN
from kilonova.api.schemas.queries import PAGE
from kilonova.api.schemas.types import JSONDict, query
from kilonova.api.validation import Schemas
from kilonova.model.saved_plan import PlanState

_UUID: JSONDict = {"type": "string", "pattern": "^[0-9a-fA-F-]{36}$"}
NEW = Schemas(
    {
        (1, 0): {
            "type": "object",
            "properties": {"drain": DRAIN.by_version[(1, 0)], "job": _UUID},
            "minProperties": 1,
            "maxProperties": 1,
            "additionalProperties": False,
        }
    }
)
LIST = Schemas(
    {(1, 0): query({**PAGE, "marker": _UUID, "state": {"enum": [each.value for each in PlanState]}}, extra=False)}
)
#: Schema of the bodies of apply, pause, resume and cancel, which must be empty.
ACT = Schemas({(1, 0): {"type": ["object", "null"], "additionalProperties": False}})
