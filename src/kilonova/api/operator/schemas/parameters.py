# SPDX-License-Identifier: Apache-2.0
"""Queries of the operator API. A parameter that it does not know is refused: to ignore a filter would mislead."""

from kilonova.api.schemas.types import JSONDict, query
from kilonova.api.validation import Schemas

_TEXT: JSONDict = {"type": "string"}
#: What a page of the hosts of an explanation is chosen by; its values are read by what makes the page.
HOSTS_CHOSEN_BY: JSONDict = {"limit": _TEXT, "marker": _TEXT, "host": _TEXT, "rule": _TEXT, "passed": _TEXT}
NO_QUERY = Schemas({(1, 0): query({}, extra=False)})
EXPLAIN_QUERY = Schemas({(1, 0): query(HOSTS_CHOSEN_BY, extra=False)})
DECISIONS_QUERY = Schemas({(1, 0): query({"hosts": _TEXT, "replay": _TEXT, **HOSTS_CHOSEN_BY}, extra=False)})
