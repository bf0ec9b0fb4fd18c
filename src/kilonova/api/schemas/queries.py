# SPDX-License-Identifier: Apache-2.0
"""Schemas of query parameters shared by several resources."""

from kilonova.api.schemas.types import JSONDict, query
from kilonova.api.validation import Schemas

#: Schema of routes without query parameters. All parameters are ignored up to 2.101, and refused from 2.102 on.
NONE = Schemas({(2, 102): query({}, extra=False)})
PAGE: JSONDict = {"limit": {"type": "string", "pattern": "^[0-9]+$"}, "marker": {"type": "string"}}
_OFFSET_PAGE: JSONDict = {"limit": PAGE["limit"], "offset": PAGE["limit"]}
OFFSET_PAGE = Schemas({(2, 1): query(_OFFSET_PAGE), (2, 75): query(_OFFSET_PAGE, extra=False)})
#: Filters by time. The times are in ISO 8601 and are parsed by :mod:`kilonova.api.compute.times`.
CHANGED_SINCE: JSONDict = {"changes-since": {"type": "string"}}
CHANGED_BEFORE: JSONDict = {"changes-before": {"type": "string"}}
