# SPDX-License-Identifier: Apache-2.0
"""Schemas of queries of the list of migrations, and of the forced completion of a live migration."""

from kilonova.api.schemas.queries import CHANGED_BEFORE, CHANGED_SINCE, PAGE
from kilonova.api.schemas.types import BOOLEAN, JSONDict, query
from kilonova.api.validation import Schemas

_TEXT: JSONDict = {"type": "string"}
_NAMES = ("host", "instance_uuid", "source_compute", "status", "migration_type")
_FILTERS: JSONDict = {**dict.fromkeys(_NAMES, _TEXT), "hidden": BOOLEAN}
_PAGED: JSONDict = {**_FILTERS, "instance_uuid": {**_TEXT, "format": "uuid"}, **PAGE, **CHANGED_SINCE}
_WITH_BEFORE: JSONDict = {**_PAGED, **CHANGED_BEFORE}

LIST = Schemas(
    {
        (2, 1): query(_FILTERS),
        (2, 59): query(_PAGED, extra=False),
        (2, 66): query(_WITH_BEFORE, extra=False),
        (2, 80): query({**_WITH_BEFORE, "user_id": _TEXT, "project_id": _TEXT}, extra=False),
    }
)
FORCE_COMPLETE = Schemas(
    {
        (2, 22): {
            "type": "object",
            "properties": {"force_complete": {"type": "null"}},
            "required": ["force_complete"],
            "additionalProperties": False,
        }
    }
)
