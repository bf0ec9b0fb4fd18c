# SPDX-License-Identifier: Apache-2.0
"""Where limits are kept: in the database, nowhere, or elsewhere, as :mod:`kilonova.identity.unified_limits` has it."""

import logging
from collections.abc import Callable
from typing import Any, Protocol

from kilonova.errors import Unavailable
from kilonova.model.quota import NO_LIMITS, Limits

LOG = logging.getLogger(__name__)


class LimitSource(Protocol):
    """Says which limits are in force where these are not in the database."""

    #: Whether limits that are written through the compute API can have an effect.
    is_read_only: bool

    def of_project(self, project_id: str) -> Limits | None:
        """Return the limits of a project; None says that the database has them. Raises: Unavailable."""

    def defaults(self) -> Limits | None:
        """Return the limits of projects without own ones; None says that the database has them. Raises: Unavailable."""


class StoredLimits:
    """The database has the limits."""

    is_read_only = False

    def of_project(self, project_id: str) -> Limits | None:
        del project_id
        return None

    def defaults(self) -> Limits | None:
        return None


class Unlimited:
    """Nothing is limited, whatever the database says."""

    is_read_only = False

    def of_project(self, project_id: str) -> Limits | None:
        del project_id
        return NO_LIMITS

    def defaults(self) -> Limits | None:
        return NO_LIMITS


class OutsideLimits:
    """What a driver from outside says, and nothing of what it says wrong: that is a 503 of the request that asked."""

    def __init__(self, driver: Any) -> None:
        self._driver = driver
        self._name = type(driver).__name__
        self.is_read_only = bool(getattr(driver, "is_read_only", True))

    def of_project(self, project_id: str) -> Limits | None:
        return self._checked(lambda: self._driver.of_project(project_id))

    def defaults(self) -> Limits | None:
        return self._checked(self._driver.defaults)

    def _checked(self, ask: Callable[[], Any]) -> Limits | None:
        try:
            said = ask()
            if said is None:
                return None
            return {**NO_LIMITS, **{str(name): int(limit) for name, limit in said.items()}}
        except Unavailable:
            raise
        except Exception as error:  # foreign code, which may do anything
            LOG.exception("Quota driver %s failed", self._name)
            raise Unavailable("The limits of the project cannot be told at present.") from error
