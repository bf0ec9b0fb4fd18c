# SPDX-License-Identifier: Apache-2.0
"""Bodies of PUT and POST /allocations. A resource maps its class to an amount, in units of the class."""

from msgspec import Struct

from kilonova.api.typed_body import Whole


class Resources(Struct, frozen=True):
    """The amounts of each resource class from one provider."""

    resources: dict[str, Whole]


class ConsumerBody(Struct, frozen=True, kw_only=True):
    """The allocations of one consumer since 1.12, as provider uuid → amounts.

    ``project_id``, ``user_id``: None before 1.8 only. ``consumer_type``: None before 1.38.
    ``consumer_generation``: None for a new consumer, and before 1.28.
    """

    allocations: dict[str, Resources]
    project_id: str | None = None
    user_id: str | None = None
    consumer_type: str | None = None
    consumer_generation: Whole | None = None


class ProviderReference(Struct, frozen=True):
    """The provider of an allocation before 1.12."""

    uuid: str


class ListedAllocation(Struct, frozen=True):
    """The amounts from one provider before 1.12."""

    resource_provider: ProviderReference
    resources: dict[str, Whole]


class ConsumerList(Struct, frozen=True, kw_only=True):
    """The allocations of one consumer before 1.12. ``project_id``, ``user_id``: None before 1.8 only."""

    allocations: tuple[ListedAllocation, ...]
    project_id: str | None = None
    user_id: str | None = None

    def by_provider(self) -> ConsumerBody:
        """Return the body in the format since 1.12; of several items with one provider the last one counts."""
        amounts = {item.resource_provider.uuid: Resources(item.resources) for item in self.allocations}
        return ConsumerBody(allocations=amounts, project_id=self.project_id, user_id=self.user_id)
