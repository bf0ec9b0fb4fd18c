# SPDX-License-Identifier: Apache-2.0
"""Schemas of the list and the removal of stray guests."""

from kilonova.api.operator.schemas.removals import removal_by
from kilonova.api.schemas.queries import PAGE
from kilonova.api.schemas.types import JSONDict, query
from kilonova.api.validation import Schemas

_HOST: JSONDict = {"type": "string", "minLength": 1, "maxLength": 255}
_GUEST: JSONDict = {"type": "string", "minLength": 1, "maxLength": 36}
_NUMBER: JSONDict = {"type": "string", "pattern": "^[0-9]{1,18}$"}
LIST = Schemas({(1, 0): query({**PAGE, "marker": _NUMBER, "host": _HOST}, extra=False)})
REMOVE = removal_by({"host": _HOST, "guest": _GUEST})
