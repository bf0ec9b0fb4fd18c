# SPDX-License-Identifier: Apache-2.0
"""Schema of a request for a floating IP, up to 2.35."""

from kilonova.api.validation import Schemas

CREATE = Schemas({(2, 1): {"type": ["object", "null"], "properties": {"pool": {"type": ["string", "null"]}}}})
