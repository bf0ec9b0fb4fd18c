# SPDX-License-Identifier: Apache-2.0
"""Schemas of queries of the list of hosts, and of their usage."""

from kilonova.api.schemas.queries import PAGE
from kilonova.api.schemas.types import HOST, JSONDict, query
from kilonova.api.validation import Schemas

_HOST: JSONDict = {"type": "string", "maxLength": 255}
LIST = Schemas({(1, 0): query({**PAGE, "marker": _HOST, "host": HOST}, extra=False)})
_CLASS: JSONDict = {"type": "string", "pattern": "^[A-Z0-9_]{1,255}$"}
_VERSION: JSONDict = {"type": "string", "pattern": "^[0-9a-f]{8}-[0-9]{1,18}$"}
USAGE = Schemas({(1, 0): query({"after": _VERSION, "resource": _CLASS}, extra=False)})
