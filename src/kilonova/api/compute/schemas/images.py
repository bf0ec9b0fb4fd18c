# SPDX-License-Identifier: Apache-2.0
"""Images, which the compute API shows up to 2.35, and their metadata, up to 2.38."""

from kilonova.api.schemas.queries import PAGE
from kilonova.api.schemas.types import query
from kilonova.api.validation import Schemas

LIST = Schemas({(2, 1): query({"limit": PAGE["limit"]})})
