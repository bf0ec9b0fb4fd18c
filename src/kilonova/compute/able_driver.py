# SPDX-License-Identifier: Apache-2.0
"""The driver of a host, with methods that check its optional abilities."""

from collections.abc import Callable, Mapping
from typing import Any, TypeVar, cast

from kilonova.compute.virt.abilities import PROTOCOLS, CanEndMoves, CanMoveCold, abilities_of
from kilonova.compute.virt.base import VirtDriver
from kilonova.errors import AbilityMissing
from kilonova.model.ability import Ability

T = TypeVar("T")
#: Protocol → abilities; a driver with any of these abilities implements the protocol.
_BROUGHT_BY: Mapping[Any, frozenset[Ability]] = {
    can: frozenset(ability for ability, protocol in PROTOCOLS.items() if can in protocol.__mro__)
    for can in {*PROTOCOLS.values(), CanEndMoves}
}


class AbleDriver:
    """A driver whose abilities are determined once, when its agent is created.

    ``host``: name of the host. ``driver``: the driver, typed with the methods that every driver has.
    ``abilities``: the optional abilities of the driver.
    """

    __slots__ = ("abilities", "driver", "host")

    def __init__(self, host: str, driver: VirtDriver) -> None:
        self.host = host
        self.driver = driver
        self.abilities = abilities_of(driver)

    def find(self, can: Callable[..., T]) -> T | None:
        """Return the driver typed as the protocol ``can``, or None if it lacks that ability.

        ``can``: one of the protocols of :mod:`kilonova.compute.virt.abilities`. The parameter is typed as
        a Callable, because mypy rejects protocols as arguments of type ``type[T]``.
        """
        return cast("T", self.driver) if self.abilities & _BROUGHT_BY[can] else None

    def need(self, can: Callable[..., T]) -> T:
        """Return the driver typed as the protocol ``can``. Raises: AbilityMissing."""
        found = self.find(can)
        if found is None:
            raise AbilityMissing(min(_BROUGHT_BY[can]))
        return found

    def need_cold_moves(self, other_host: str) -> CanMoveCold:
        """Return the driver typed as ``CanMoveCold``.

        ``other_host``: the other host of the move; the host of this driver in a resize on the same host.
        Raises: AbilityMissing if the driver lacks COLD_MIGRATE, or RESIZE_SAME_HOST for a resize on the same host.
        """
        ability = Ability.RESIZE_SAME_HOST if other_host == self.host else Ability.COLD_MIGRATE
        if ability not in self.abilities:
            raise AbilityMissing(ability)
        return self.need(CanMoveCold)
