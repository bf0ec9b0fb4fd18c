# SPDX-License-Identifier: Apache-2.0
"""Schema of the parameters of jobs of the kind ``forecast``. The scenario is checked when it is read."""

from kilonova.api.operator.schemas.policy_change import CHANGE
from kilonova.api.schemas.types import JSONDict
from kilonova.api.validation import Schemas

_NAME: JSONDict = {"type": "string", "minLength": 1, "maxLength": 255}
_POLICY: JSONDict = {
    "type": "object",
    "properties": {"name": _NAME, **{name: CHANGE[name] for name in ("options", "enable", "disable", "weights")}},
    "required": ["name"],
    "additionalProperties": False,
}
FORECAST = Schemas(
    {
        (1, 0): {
            "type": "object",
            "properties": {
                "scenario": {"type": "object"},
                "name": _NAME,
                "policies": {"type": "array", "items": _POLICY, "maxItems": 10},
            },
            "required": ["scenario"],
            "additionalProperties": False,
        }
    }
)
