# SPDX-License-Identifier: Apache-2.0
"""Where limits are kept: in the database, nowhere, or elsewhere, as :mod:`kilonova.identity.unified_limits` has it."""

from typing import Protocol

from kilonova.model.quota import NO_LIMITS, Limits


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
