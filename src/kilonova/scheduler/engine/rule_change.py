# SPDX-License-Identifier: Apache-2.0
"""A change of the scheduler's rules: other options, rules enabled or disabled, other multipliers."""

from collections.abc import Callable, Mapping
from dataclasses import field

from kilonova.errors import InvalidRequest
from kilonova.records import dataclass
from kilonova.scheduler.devices.pci_request import Alias
from kilonova.scheduler.engine.engine import Engine


@dataclass(frozen=True, slots=True)
class RuleChange:
    """A change of the configured rules.

    ``options``: name of an option of the scheduler → its text, as in a configuration file. ``enable``, ``disable``:
    class names of filters, weighers and request filters. ``weights``: class name of a weigher → its multiplier.
    ``filters``: ``module:Class`` of filters that are imported; only for changes that the operator of the machine makes.
    """

    options: Mapping[str, str] = field(default_factory=dict)
    enable: tuple[str, ...] = ()
    disable: tuple[str, ...] = ()
    weights: Mapping[str, float] = field(default_factory=dict)
    filters: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return any((self.options, self.enable, self.disable, self.weights, self.filters))


@dataclass(frozen=True, slots=True)
class RuleSet:
    """Rules of one configuration. ``digest``: digest of the configuration. ``aliases``: its PCI aliases."""

    engine: Engine
    aliases: Mapping[str, Alias] = field(default_factory=dict)
    digest: str = ""


RebuildRules = Callable[[RuleChange], RuleSet]
"""Function that returns the configured rules after a change. Raises: InvalidRequest naming the field."""


def cannot_rebuild(_change: RuleChange) -> RuleSet:
    """Raise InvalidRequest, in a process that cannot change its rules."""
    raise InvalidRequest("This process cannot change the rules.")
