# SPDX-License-Identifier: Apache-2.0
"""Bodies that describe a change of policy."""

from collections.abc import Mapping

import msgspec

from kilonova.planning.policy_change import AggregateChange, PolicyChange
from kilonova.scheduler.engine.rule_change import RuleChange


class AskedAggregate(msgspec.Struct, frozen=True, kw_only=True):
    """A change of an aggregate. ``metadata``: None removes a key."""

    metadata: Mapping[str, str | None] = {}
    add_hosts: tuple[str, ...] = ()
    remove_hosts: tuple[str, ...] = ()

    @property
    def change(self) -> AggregateChange:
        return AggregateChange(self.metadata, frozenset(self.add_hosts), frozenset(self.remove_hosts))


class AskedHost(msgspec.Struct, frozen=True, kw_only=True):
    """A change of a compute host."""

    disabled: bool


class AskedFlavor(msgspec.Struct, frozen=True, kw_only=True):
    """A change of a flavor. ``extra_specs``: None removes a key."""

    extra_specs: Mapping[str, str | None] = {}


class AskedRules(msgspec.Struct, frozen=True, kw_only=True):
    """A change of the scheduler's rules."""

    options: Mapping[str, str] = {}
    enable: tuple[str, ...] = ()
    disable: tuple[str, ...] = ()
    weights: Mapping[str, float] = {}

    @property
    def rules(self) -> RuleChange:
        return RuleChange(self.options, self.enable, self.disable, self.weights)


class AskedChange(AskedRules, frozen=True, kw_only=True):
    """A change of policy, by the names that the client uses. ``aggregates``, ``flavors``: by name or id."""

    aggregates: Mapping[str, AskedAggregate] = {}
    hosts: Mapping[str, AskedHost] = {}
    flavors: Mapping[str, AskedFlavor] = {}

    def change(self, aggregates: Mapping[str, int], rules: RuleChange | None = None) -> PolicyChange:
        """Return the change. ``aggregates``: reference → id of each aggregate. ``rules``: replaces :attr:`rules`."""
        return PolicyChange(
            rules or self.rules,
            {aggregates[name]: each.change for name, each in self.aggregates.items()},
            {name: each.disabled for name, each in self.hosts.items()},
            {name: each.extra_specs for name, each in self.flavors.items()},
        )


class AskedDiff(AskedChange, frozen=True, kw_only=True):
    """Parameters of jobs of the kind ``diff``. ``last``: decisions to look at; ``listed``: differences to show."""

    last: int = 10_000
    listed: int = 1_000


class AskedPreview(AskedChange, frozen=True, kw_only=True):
    """Body of POST /operator/v1/preview. ``days``: age of the oldest requests to repeat; ``listed``: items to show."""

    days: float = 7
    listed: int = 1_000
