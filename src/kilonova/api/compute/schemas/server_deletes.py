# SPDX-License-Identifier: Apache-2.0
"""Schemas of restore and forced deletion of a server."""

from kilonova.api.schemas.types import anything
from kilonova.api.validation import Schemas

RESTORE = Schemas({(2, 1): anything("restore")})
FORCE_DELETE = Schemas({(2, 1): anything("forceDelete")})
