# SPDX-License-Identifier: Apache-2.0
"""Body of POST /reshaper."""

from msgspec import Struct

from kilonova.api.placement.bodies.allocations import ConsumerBody
from kilonova.api.placement.bodies.inventories import Inventories


class Reshape(Struct, frozen=True):
    """The inventories of each provider and the allocations of each consumer after the request, by uuid."""

    inventories: dict[str, Inventories]
    allocations: dict[str, ConsumerBody]
