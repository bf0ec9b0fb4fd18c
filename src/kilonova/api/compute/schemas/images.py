# SPDX-License-Identifier: Apache-2.0
"""Schema of queries of the image list, a route that exists up to 2.35."""

from kilonova.api.schemas.queries import PAGE
from kilonova.api.schemas.types import query
from kilonova.api.validation import Schemas

LIST = Schemas({(2, 1): query({"limit": PAGE["limit"]})})
