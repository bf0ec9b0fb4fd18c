# SPDX-License-Identifier: Apache-2.0
"""Body of POST /reshaper."""

from msgspec import Struct

from kilonova.api.placement.bodies.allocations import ConsumerBody
from kilonova.api.placement.bodies.inventories import Inventories


class Reshape(Struct, frozen=True):
    """The new inventories by provider uuid, and the new allocations by consumer uuid."""

    inventories: dict[str, Inventories]
    allocations: dict[str, ConsumerBody]
