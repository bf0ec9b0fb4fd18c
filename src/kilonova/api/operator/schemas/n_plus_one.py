# SPDX-License-Identifier: Apache-2.0
"""Schema of the parameters of jobs of the kind ``n-plus-one``."""

from kilonova.api.validation import Schemas

MOST_HOSTS = 100
_LOSE = {"anyOf": [{"enum": ["host", "zone"]}, {"type": "integer", "minimum": 1, "maximum": MOST_HOSTS}]}
N_PLUS_ONE = Schemas(
    {(1, 0): {"type": "object", "properties": {"lose": _LOSE}, "required": ["lose"], "additionalProperties": False}}
)
