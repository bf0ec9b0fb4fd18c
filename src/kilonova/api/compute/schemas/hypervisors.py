# SPDX-License-Identifier: Apache-2.0
"""Schemas of queries of hypervisors."""

from kilonova.api.schemas.queries import PAGE
from kilonova.api.schemas.types import BOOLEAN, JSONDict, query
from kilonova.api.validation import Schemas

_WITH_SERVERS: JSONDict = {"with_servers": BOOLEAN}
_SEARCH: JSONDict = PAGE | _WITH_SERVERS | {"hypervisor_hostname_pattern": {"type": "string", "minLength": 1}}

LIST = Schemas({(2, 33): query(PAGE), (2, 53): query(_SEARCH, extra=False, once=True)})
SHOW = Schemas({(2, 53): query(_WITH_SERVERS, extra=False, once=True)})
