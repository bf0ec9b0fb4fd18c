# SPDX-License-Identifier: Apache-2.0
"""Schema of the query of GET /operator/v1/changes."""

from kilonova.api.schemas.types import JSONDict, query
from kilonova.api.validation import Schemas

#: Change-log numbers have fewer digits.
DIGITS = 19
_NUMBER: JSONDict = {"type": "string", "pattern": f"^[0-9]{{1,{DIGITS - 1}}}$"}
#: At most 50: less than the default of ``[api] request_timeout``.
_SECONDS: JSONDict = {"type": "string", "pattern": "^([0-9]|[1-4][0-9]|50)$"}
FOLLOW = Schemas({(1, 0): query({"after": _NUMBER, "wait": _SECONDS}, extra=False)})
