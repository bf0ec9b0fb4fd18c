# SPDX-License-Identifier: Apache-2.0
"""The driver of a host together with its abilities, as everything in an agent that needs one of them gets it."""

from collections.abc import Callable, Mapping
from typing import Any, TypeVar, cast

from kilonova.compute.virt.abilities import PROTOCOLS, CanEndMoves, CanMoveCold, abilities_of
from kilonova.compute.virt.base import VirtDriver
from kilonova.errors import AbilityMissing
from kilonova.model.ability import Ability

T = TypeVar("T")
#: Protocol → the abilities each of which brings it.
_BROUGHT_BY: Mapping[Any, frozenset[Ability]] = {
    can: frozenset(ability for ability, protocol in PROTOCOLS.items() if can in protocol.__mro__)
    for can in {*PROTOCOLS.values(), CanEndMoves}
}


class AbleDriver:
    """A driver whose abilities are looked at once, when its agent is made.

    ``host``: its name. ``driver``: for what every driver does. ``abilities``: what else it can do.
    """

    __slots__ = ("abilities", "driver", "host")

    def __init__(self, host: str, driver: VirtDriver) -> None:
        self.host = host
        self.driver = driver
        self.abilities = abilities_of(driver)

    def find(self, can: Callable[..., T]) -> T | None:
        """Return the driver as one that can do this, None where it cannot.

        ``can``: one of the protocols of :mod:`kilonova.compute.virt.abilities`; as a parameter of type ``type[T]`` mypy
        takes no protocols.
        """
        return cast("T", self.driver) if self.abilities & _BROUGHT_BY[can] else None

    def need(self, can: Callable[..., T]) -> T:
        """Return the driver as one that can do this. Raises: AbilityMissing."""
        found = self.find(can)
        if found is None:
            raise AbilityMissing(min(_BROUGHT_BY[can]))
        return found

    def need_cold_moves(self, other_host: str) -> CanMoveCold:
        """Return the driver as one that moves guests to and from another host, or resizes them on its own.

        Raises: AbilityMissing.
        """
        ability = Ability.RESIZE_SAME_HOST if other_host == self.host else Ability.COLD_MIGRATE
        if ability not in self.abilities:
            raise AbilityMissing(ability)
        return self.need(CanMoveCold)
