# SPDX-License-Identifier: Apache-2.0
"""Bodies of requests that set inventories of a provider. Amounts are in units of the resource class."""

from msgspec import Struct

from kilonova.api.schemas.types import MAX_INTEGER
from kilonova.api.typed_body import Whole


class InventoryFields(Struct, frozen=True, kw_only=True):
    """One inventory without its resource class."""

    total: Whole
    reserved: Whole = 0
    min_unit: Whole = 1
    max_unit: Whole = MAX_INTEGER
    step_size: Whole = 1
    allocation_ratio: float = 1.0


class NewInventory(InventoryFields, frozen=True, kw_only=True):
    """POST /resource_providers/{uuid}/inventories."""

    resource_class: str


class ChangedInventory(InventoryFields, frozen=True, kw_only=True):
    """PUT /resource_providers/{uuid}/inventories/{resource_class}, with the provider's expected generation."""

    resource_provider_generation: Whole


class Inventories(Struct, frozen=True, kw_only=True):
    """All inventories of a provider by resource class, with the provider's expected generation."""

    resource_provider_generation: Whole
    inventories: dict[str, InventoryFields]
