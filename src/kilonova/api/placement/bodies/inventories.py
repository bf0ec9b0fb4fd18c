# SPDX-License-Identifier: Apache-2.0
"""Bodies of requests that set inventories of a resource provider. Amounts are in units of the resource class."""

from msgspec import Struct

from kilonova.api.schemas.types import MAX_INTEGER
from kilonova.api.typed_body import Whole


class InventoryFields(Struct, frozen=True, kw_only=True):
    """The fields of one inventory, except its resource class."""

    total: Whole
    reserved: Whole = 0
    min_unit: Whole = 1
    max_unit: Whole = MAX_INTEGER
    step_size: Whole = 1
    allocation_ratio: float = 1.0


class NewInventory(InventoryFields, frozen=True, kw_only=True):
    """Body of POST /resource_providers/{uuid}/inventories: a new inventory with its resource class."""

    resource_class: str


class ChangedInventory(InventoryFields, frozen=True, kw_only=True):
    """Body of PUT /resource_providers/{uuid}/inventories/{resource_class}.

    ``resource_provider_generation``: the generation that the provider must have.
    """

    resource_provider_generation: Whole


class Inventories(Struct, frozen=True, kw_only=True):
    """All inventories of a provider, by resource class, and the generation that the provider must have."""

    resource_provider_generation: Whole
    inventories: dict[str, InventoryFields]
