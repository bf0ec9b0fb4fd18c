# SPDX-License-Identifier: Apache-2.0
"""Schema of the usages of a project."""

from kilonova.api.placement.schemas.types import CLASS_PATTERN, OWNER, strict
from kilonova.api.placement.schemas.validation import QuerySchemas
from kilonova.api.schemas.types import JSONDict

_OWNERS: JSONDict = {"project_id": OWNER, "user_id": OWNER}
_TYPE: JSONDict = {"type": "string", "pattern": f"{CLASS_PATTERN}|^all$|^unknown$", "minLength": 1, "maxLength": 255}

TOTAL = QuerySchemas(
    {(1, 9): strict(_OWNERS, "project_id"), (1, 38): strict({**_OWNERS, "consumer_type": _TYPE}, "project_id")}
)
