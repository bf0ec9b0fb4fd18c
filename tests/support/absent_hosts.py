# SPDX-License-Identifier: Apache-2.0
"""Hosts of a cell that go away in the middle of an order, and come back."""

from kilonova.errors import DriverError
from support.cell import Cell


def vanish_before(cell: Cell, method: str, name: str) -> None:
    """Make a host unreachable when it receives an order, which it does not carry out."""

    def vanish(*_: object, **__: object) -> None:
        cell.bus.cut_off, cell.bus.muted = {name}, {name}
        raise DriverError("The host stops.")

    vanish.vanishes = True  # type: ignore[attr-defined]
    setattr(cell.drivers[name], method, vanish)


def vanish_after(cell: Cell, method: str, name: str) -> None:
    """Make a host unreachable right after it has carried out an order, so that its reply is lost."""
    driver = cell.drivers[name]
    act = getattr(driver, method)

    def act_and_vanish(*args: object, **kwargs: object) -> object:
        result = act(*args, **kwargs)
        cell.bus.cut_off, cell.bus.muted = {name}, {name}
        return result

    act_and_vanish.vanishes = True  # type: ignore[attr-defined]
    setattr(driver, method, act_and_vanish)


def lose(cell: Cell, name: str) -> None:
    """Let the control process notice that a host is absent: its replies are lost, and its session is given up."""
    cell.bus.run()
    cell.conductor.runner.ask_hosts([name])
    cell.bus.run()


def come_back(cell: Cell, name: str) -> None:
    """Start the agent of a host anew, with a driver that works, and run all work."""
    for method in [each for each, value in vars(cell.drivers[name]).items() if getattr(value, "vanishes", False)]:
        delattr(cell.drivers[name], method)
    cell.reconnect()
    cell.work_off()
