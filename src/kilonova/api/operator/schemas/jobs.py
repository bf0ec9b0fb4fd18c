# SPDX-License-Identifier: Apache-2.0
"""Schemas of the body of POST /operator/v1/jobs and of the query of the list of jobs. ``kinds``: names of all kinds."""

from collections.abc import Iterable

from kilonova.api.schemas.queries import PAGE
from kilonova.api.schemas.types import JSONDict, query
from kilonova.api.validation import Schemas
from kilonova.model.job import JobState

_UUID: JSONDict = {"type": "string", "pattern": "^[0-9a-fA-F-]{36}$"}


def new_job(kinds: Iterable[str]) -> Schemas:
    """Return the schema of a new job; the schema of its parameters depends on its kind."""
    properties = {"kind": {"enum": sorted(kinds)}, "parameters": {"type": "object"}}
    schema = {"type": "object", "properties": properties, "required": ["kind"], "additionalProperties": False}
    return Schemas({(1, 0): schema})


def job_list(kinds: Iterable[str]) -> Schemas:
    """Return the schema of the query of the list of jobs."""
    states = {"enum": [state.value for state in JobState]}
    parameters = {**PAGE, "marker": _UUID, "kind": {"enum": sorted(kinds)}, "state": states}
    return Schemas({(1, 0): query(parameters, extra=False)})
