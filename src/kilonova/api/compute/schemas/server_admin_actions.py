# SPDX-License-Identifier: Apache-2.0
"""Schemas of administrative server actions: reset state, inject network info."""

from kilonova.api.schemas.types import anything, body
from kilonova.api.validation import Schemas

RESET_STATE = Schemas({(2, 1): body("os-resetState", {"state": {"enum": ["active", "error"]}}, required=("state",))})
INJECT_NETWORK_INFO = Schemas({(2, 1): anything("injectNetworkInfo")})
