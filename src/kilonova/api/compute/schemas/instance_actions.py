# SPDX-License-Identifier: Apache-2.0
"""Schemas of queries of instance actions."""

from kilonova.api.schemas.queries import CHANGED_BEFORE, CHANGED_SINCE, PAGE
from kilonova.api.schemas.types import JSONDict, query
from kilonova.api.validation import Schemas

_PAGED: JSONDict = {**PAGE, **CHANGED_SINCE}
LIST = Schemas({(2, 58): query(_PAGED, extra=False), (2, 66): query({**_PAGED, **CHANGED_BEFORE}, extra=False)})
