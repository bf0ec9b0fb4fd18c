# SPDX-License-Identifier: Apache-2.0
"""Schemas of queries of projects' usage. Times in them are validated by :mod:`kilonova.api.compute.times`."""

from kilonova.api.schemas.queries import PAGE
from kilonova.api.schemas.types import JSONDict, query
from kilonova.api.validation import Schemas

_TIMES: JSONDict = {"start": {"type": "string"}, "end": {"type": "string"}}
_DETAILED: JSONDict = {"detailed": {"type": "string"}}


def _paged(parameters: JSONDict) -> Schemas:
    paged = parameters | PAGE
    return Schemas({(2, 1): query(parameters), (2, 40): query(paged), (2, 75): query(paged, extra=False)})


LIST = _paged(_TIMES | _DETAILED)
SHOW = _paged(_TIMES)
