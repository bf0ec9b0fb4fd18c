# SPDX-License-Identifier: Apache-2.0
"""Schemas of queries of the list of workflows, and of the bodies of retry and abandon."""

from kilonova.api.schemas.queries import PAGE
from kilonova.api.schemas.types import JSONDict, query
from kilonova.api.validation import Schemas
from kilonova.conductor.workflows.registry import REGISTRY

_UUID: JSONDict = {"type": "string", "pattern": "^[0-9a-fA-F-]{36}$"}
LIST = Schemas(
    {
        (1, 0): query(
            {
                **PAGE,
                "marker": _UUID,
                "kind": {"enum": sorted(REGISTRY)},
                "stuck": {"enum": ["true", "false"]},
                "waiting": {"enum": ["true", "false"]},
                "server": _UUID,
            },
            extra=False,
        )
    }
)
#: Schema of the body of retry and abandon, which must be empty.
ACT = Schemas({(1, 0): {"type": ["object", "null"], "additionalProperties": False}})
