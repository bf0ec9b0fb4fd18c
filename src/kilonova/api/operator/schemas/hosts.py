# SPDX-License-Identifier: Apache-2.0
"""Schema of queries of the list of hosts."""

from kilonova.api.schemas.queries import PAGE
from kilonova.api.schemas.types import HOST, JSONDict, query
from kilonova.api.validation import Schemas

_HOST: JSONDict = {"type": "string", "maxLength": 255}
LIST = Schemas({(1, 0): query({**PAGE, "marker": _HOST, "host": HOST}, extra=False)})
