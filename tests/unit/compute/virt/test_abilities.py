# SPDX-License-Identifier: Apache-2.0
"""What a driver can do follows from its methods, less what this very one says it lacks."""

import ast
import inspect
from pathlib import Path

import pytest

from kilonova.compute.virt import abilities
from kilonova.compute.virt.abilities import PROTOCOLS, abilities_of, missing_methods
from kilonova.compute.virt.base import VirtDriver
from kilonova.compute.virt.fake import FakeDriver
from kilonova.model.ability import Ability
from kilonova.model.allocation_ratios import AllocationRatios
from kilonova.model.instance import PowerState
from kilonova.scenario.model import SimulatedHost
from support.smallest_driver import FileDriver, setup_in


def simulated(folder: Path, lacks: frozenset[Ability] = frozenset()) -> FakeDriver:
    return FakeDriver(SimulatedHost("node1"), folder / "node1.json", AllocationRatios(), lacks=lacks)


def test_every_ability_has_its_protocol_and_is_described() -> None:
    assert set(PROTOCOLS) == set(Ability)
    kinds = {cls for name, cls in vars(abilities).items() if name.startswith("Can") and inspect.isclass(cls)}
    assert kinds == {*PROTOCOLS.values(), abilities.CanEndMoves}
    _, *body = ast.parse(inspect.getsource(Ability)).body[0].body  # type: ignore[attr-defined]
    assert [type(line) for line in body] == [ast.Assign, ast.Expr] * len(Ability)
    assert list(Ability) == sorted(Ability)


def test_no_method_is_asked_for_twice() -> None:
    """A driver that has one ability has no part of another, so that one that is half there can be told."""
    owners: dict[str, list[str]] = {}
    for cls in (VirtDriver, *{*PROTOCOLS.values(), abilities.CanEndMoves}):
        for name in (name for name, member in vars(cls).items() if inspect.isfunction(member) and name[0] != "_"):
            owners.setdefault(name, []).append(cls.__name__)
    assert not {name: classes for name, classes in owners.items() if len(classes) > 1}


def test_the_smallest_driver_has_none(tmp_path: Path) -> None:
    assert abilities_of(FileDriver(setup_in(tmp_path))) == frozenset()


def test_a_simulated_host_has_all_but_what_it_lacks(tmp_path: Path) -> None:
    no_images = {Ability.IMAGE_CACHE}  # it reads none
    assert abilities_of(simulated(tmp_path)) == set(Ability) - no_images
    less = frozenset({Ability.COLD_MIGRATE, Ability.PAUSE})
    assert abilities_of(simulated(tmp_path, less)) == set(Ability) - no_images - less


def test_an_ability_of_which_a_method_is_missing_is_none(tmp_path: Path) -> None:
    class Half(FileDriver):
        def pause(self, uuid: str) -> None: ...

    class Whole(Half):
        def unpause(self, uuid: str) -> None: ...

    half, whole = Half(setup_in(tmp_path)), Whole(setup_in(tmp_path))
    assert (abilities_of(half), missing_methods(half)) == (frozenset(), ("unpause",))
    assert (abilities_of(whole), missing_methods(whole)) == ({Ability.PAUSE}, ())


def test_a_driver_that_moves_guests_in_one_way_has_all_of_that_way(tmp_path: Path) -> None:
    class Moves(FileDriver):
        def move_away(self, uuid: str, destination: str, timeout: object = None) -> None: ...

        def finish_move(self, guest: object, source: str, *, power_on: bool) -> None: ...

    class Ends(Moves):
        def return_home(self, guest: object, *, power_on: bool) -> PowerState: ...

        def confirm_move(self, uuid: str) -> None: ...

        def abandon_move(self, uuid: str) -> None: ...

    moves, ends = Moves(setup_in(tmp_path)), Ends(setup_in(tmp_path))
    assert set(missing_methods(moves)) == {"return_home", "confirm_move", "abandon_move"}
    assert abilities_of(moves) == frozenset()
    assert missing_methods(ends) == missing_methods(simulated(tmp_path)) == ()
    assert abilities_of(ends) == {Ability.COLD_MIGRATE, Ability.RESIZE_SAME_HOST}


@pytest.mark.parametrize("name", ["report", "changed_guests", "stop", "close"])
def test_what_every_driver_does_is_no_ability(name: str) -> None:
    assert hasattr(VirtDriver, name)
    assert not any(hasattr(protocol, name) for protocol in PROTOCOLS.values())
