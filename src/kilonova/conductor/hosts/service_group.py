# SPDX-License-Identifier: Apache-2.0
"""States of hosts from a service-group driver: an operator's class that knows which hosts are down.

A host is up if the heartbeats of its agent arrive and the driver does not declare the host down. Heartbeats stay
necessary, because an agent without heartbeats cannot be reached either.
"""

import logging
from collections.abc import Mapping
from typing import Any, Protocol

from kilonova.db import services
from kilonova.db.database import Database
from kilonova.errors import Unavailable

LOG = logging.getLogger(__name__)


class HostStates(Protocol):
    """A service-group driver."""

    def states(self) -> Mapping[str, bool]:
        """Return host → whether the host is up. A host that is missing is judged by its heartbeats alone."""


class DeclaredHosts:
    """Writes the states that a driver declares. All control processes ask; only changes are written.

    ``driver``: None to withdraw what a driver of an earlier configuration declared.
    """

    def __init__(self, database: Database, driver: HostStates | None) -> None:
        self._database = database
        self._driver = driver

    def look(self) -> None:
        """Ask the driver, and write the changed states. Raises: Unavailable; then all states stay as they are."""
        down = set() if self._driver is None else _down(self._driver)
        with self._database.read() as connection:
            if not any(services.declaration_changes(connection, down)):
                return
        gone, back = self._database.write(lambda tx: services.declare_down(tx, down))
        if gone:
            LOG.warning("The service-group driver declares %d hosts down: %s", len(gone), _listed(gone))
        if back:
            LOG.info("The service-group driver declares %d hosts up again: %s", len(back), _listed(back))


def _down(driver: HostStates) -> set[str]:
    try:
        said: Any = driver.states()
        return {str(host) for host, is_up in said.items() if not is_up}
    except Exception as error:  # an external driver may raise anything
        name = type(driver).__name__
        raise Unavailable(f"Service-group driver {name} failed ({type(error).__name__}: {error})") from error


def _listed(hosts: tuple[str, ...]) -> str:
    return ", ".join(hosts[:20]) + (", …" if len(hosts) > 20 else "")
