# SPDX-License-Identifier: Apache-2.0
"""Bodies of PUT and POST /allocations. Amounts are in units of the resource class."""

from msgspec import Struct

from kilonova.api.typed_body import Whole


class Resources(Struct, frozen=True):
    """Allocated resources of one provider, as resource class → amount."""

    resources: dict[str, Whole]


class ConsumerBody(Struct, frozen=True, kw_only=True):
    """The allocations of one consumer, in the format since 1.12: provider uuid → resources.

    ``project_id``, ``user_id``: None only before 1.8. ``consumer_type``: None before 1.38.
    ``consumer_generation``: None for a new consumer, and before 1.28.
    """

    allocations: dict[str, Resources]
    project_id: str | None = None
    user_id: str | None = None
    consumer_type: str | None = None
    consumer_generation: Whole | None = None


class ProviderReference(Struct, frozen=True):
    """The provider of an allocation, in the format before 1.12."""

    uuid: str


class ListedAllocation(Struct, frozen=True):
    """Allocated resources of one provider, in the format before 1.12."""

    resource_provider: ProviderReference
    resources: dict[str, Whole]


class ConsumerList(Struct, frozen=True, kw_only=True):
    """The allocations of one consumer, in the format before 1.12. ``project_id``, ``user_id``: None only before 1.8."""

    allocations: tuple[ListedAllocation, ...]
    project_id: str | None = None
    user_id: str | None = None

    def by_provider(self) -> ConsumerBody:
        """Convert the body to the format since 1.12. If several items have the same provider, the last one is used."""
        amounts = {item.resource_provider.uuid: Resources(item.resources) for item in self.allocations}
        return ConsumerBody(allocations=amounts, project_id=self.project_id, user_id=self.user_id)
