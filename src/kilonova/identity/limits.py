# SPDX-License-Identifier: Apache-2.0
"""Sources of quota limits: the database, an external driver such as unified limits, or no limits at all."""

import logging
from collections.abc import Callable
from typing import Any, Protocol

from kilonova.errors import Unavailable
from kilonova.model.quota import NO_LIMITS, Limits, NestedLimits, QuotaTree

LOG = logging.getLogger(__name__)


class LimitSource(Protocol):
    """A source of limits, which takes precedence over the limits in the database."""

    #: Whether writing limits through the compute API is refused.
    is_read_only: bool

    def of_project(self, project_id: str) -> Limits | None:
        """Return the limits of a project, or None if the limits in the database apply. Raises: Unavailable."""

    def defaults(self) -> Limits | None:
        """Return the default limits, or None if the default limits in the database apply. Raises: Unavailable."""


class StoredLimits:
    """Source for which the limits in the database apply."""

    is_read_only = False

    def of_project(self, project_id: str) -> Limits | None:
        del project_id
        return None

    def defaults(self) -> Limits | None:
        return None


class Unlimited:
    """Source without limits: the limits in the database are ignored."""

    is_read_only = False

    def of_project(self, project_id: str) -> Limits | None:
        del project_id
        return NO_LIMITS

    def defaults(self) -> Limits | None:
        return NO_LIMITS


class OutsideLimits:
    """An external quota driver. If the driver raises or returns an invalid value, the request is answered with 503."""

    def __init__(self, driver: Any) -> None:
        self._driver = driver
        self._name = type(driver).__name__
        self.is_read_only = bool(getattr(driver, "is_read_only", True))

    def of_project(self, project_id: str) -> Limits | None:
        return self._checked(lambda: self._of_project(project_id))

    def defaults(self) -> Limits | None:
        return self._checked(lambda: _read(self._driver.defaults()))

    def _of_project(self, project_id: str) -> Limits | None:
        limits = _read(self._driver.of_project(project_id))
        find = getattr(self._driver, "tree_of", None)
        said = None if limits is None or find is None else find(project_id)
        if limits is None or said is None:
            return limits
        projects = frozenset(map(str, said["projects"])) | {project_id}
        of_tree = _read(said["limits"]) or NO_LIMITS
        return NestedLimits(limits, QuotaTree(str(said.get("name", "its parent")), projects, of_tree))

    def _checked(self, ask: Callable[[], Limits | None]) -> Limits | None:
        try:
            return ask()
        except Unavailable:
            raise
        except Exception as error:  # an external driver may raise anything
            LOG.exception("Quota driver %s failed", self._name)
            raise Unavailable("The limits of the project are not available at present.") from error


def _read(said: Any) -> Limits | None:
    return None if said is None else {**NO_LIMITS, **{str(name): int(limit) for name, limit in said.items()}}
