# SPDX-License-Identifier: Apache-2.0
"""Queries that several resources take."""

from kilonova.api.schemas.types import JSONDict, query
from kilonova.api.validation import Schemas

#: No parameters: unknown ones are tolerated up to 2.101.
NONE = Schemas({(2, 102): query({}, extra=False)})
PAGE: JSONDict = {"limit": {"type": "string", "pattern": "^[0-9]+$"}, "marker": {"type": "string"}}
_OFFSET_PAGE: JSONDict = {"limit": PAGE["limit"], "offset": PAGE["limit"]}
OFFSET_PAGE = Schemas({(2, 1): query(_OFFSET_PAGE), (2, 75): query(_OFFSET_PAGE, extra=False)})
#: Dates and times, which :mod:`kilonova.api.compute.times` reads.
CHANGED_SINCE: JSONDict = {"changes-since": {"type": "string"}}
CHANGED_BEFORE: JSONDict = {"changes-before": {"type": "string"}}
