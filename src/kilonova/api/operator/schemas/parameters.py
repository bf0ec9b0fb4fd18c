# SPDX-License-Identifier: Apache-2.0
"""Query parameters that several routes of the operator API share. Unknown parameters are refused, never ignored."""

from kilonova.api.schemas.types import JSONDict, query
from kilonova.api.validation import Schemas

_TEXT: JSONDict = {"type": "string"}
#: Query parameters that select hosts in an explanation. ``paging.host_filters`` validates their values.
HOSTS_CHOSEN_BY: JSONDict = {"limit": _TEXT, "marker": _TEXT, "host": _TEXT, "rule": _TEXT, "passed": _TEXT}
NO_QUERY = Schemas({(1, 0): query({}, extra=False)})
EXPLAIN_QUERY = Schemas({(1, 0): query(HOSTS_CHOSEN_BY, extra=False)})
DECISIONS_QUERY = Schemas({(1, 0): query({"hosts": _TEXT, "replay": _TEXT, **HOSTS_CHOSEN_BY}, extra=False)})
