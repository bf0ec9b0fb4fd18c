# SPDX-License-Identifier: Apache-2.0
"""A change of policy, to try on the past and on the present: rules, aggregates, hosts and flavors."""

from collections.abc import Mapping
from dataclasses import field

from kilonova.model.aggregate import Aggregate
from kilonova.model.flavor import Flavor
from kilonova.model.request_spec import RequestSpec
from kilonova.records import dataclass, replace
from kilonova.scheduler.engine.rule_change import RuleChange

Values = Mapping[str, str | None]
"""Keys with their new values; None removes the key."""


@dataclass(frozen=True, slots=True)
class AggregateChange:
    """A change of one aggregate: of its metadata, and of its hosts (service host names)."""

    metadata: Values = field(default_factory=dict)
    add_hosts: frozenset[str] = frozenset()
    remove_hosts: frozenset[str] = frozenset()

    def of(self, aggregate: Aggregate) -> Aggregate:
        """Return the aggregate after the change."""
        hosts = [host for host in aggregate.hosts if host not in self.remove_hosts]
        hosts += sorted(self.add_hosts.difference(hosts))
        return replace(aggregate, hosts=tuple(hosts), metadata=changed(aggregate.metadata, self.metadata))


@dataclass(frozen=True, slots=True)
class PolicyChange:
    """What is changed. Empty: nothing.

    ``aggregates``: by id. ``disabled``: service host → whether its compute service is disabled. ``flavors``: id or name
    → extra specs.
    """

    rules: RuleChange = field(default_factory=RuleChange)
    aggregates: Mapping[int, AggregateChange] = field(default_factory=dict)
    disabled: Mapping[str, bool] = field(default_factory=dict)
    flavors: Mapping[str, Values] = field(default_factory=dict)

    def asked(self, spec: RequestSpec) -> RequestSpec:
        """Return the request with the changed extra specs of its flavor."""
        for name in self.names_of(spec.flavor):
            flavor = spec.flavor
            specs = changed(flavor.extra_specs, self.flavors[name])
            spec = replace(spec, flavor=replace(flavor, extra_specs=specs))
        return spec

    def names_of(self, flavor: Flavor) -> tuple[str, ...]:
        """Return the keys of ``flavors`` that mean this flavor: its id first, then its name."""
        if not self.flavors:
            return ()
        return tuple(name for name in dict.fromkeys((flavor.flavor_id, flavor.name)) if name in self.flavors)


def changed(values: Mapping[str, str], change: Values) -> dict[str, str]:
    """Return the values after a change, in the order of their keys."""
    found = {**values, **change}
    kept = {key: value for key, value in found.items() if value is not None}
    return kept if not change else dict(sorted(kept.items()))
