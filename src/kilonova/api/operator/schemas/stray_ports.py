# SPDX-License-Identifier: Apache-2.0
"""Schemas of the list and the removal of stray ports."""

from kilonova.api.operator.schemas.removals import removal_by
from kilonova.api.schemas.queries import PAGE
from kilonova.api.schemas.types import query
from kilonova.api.validation import Schemas

LIST = Schemas({(1, 0): query(PAGE, extra=False)})
REMOVE = removal_by({"port": {"type": "string", "format": "uuid"}})
