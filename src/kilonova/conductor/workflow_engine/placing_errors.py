# SPDX-License-Identifier: Apache-2.0
"""Conversion of scheduler errors to step failures."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from kilonova.conductor.workflow_engine.run import Failure
from kilonova.errors import KilonovaError, Unavailable
from kilonova.records import dataclass

LOG = logging.getLogger(__name__)


@dataclass(eq=False)
class CannotPlaceError(Exception):
    """No host was found for at least one server of a request. ``details`` are for administrators."""

    message: str
    details: str = ""

    @property
    def failure(self) -> Failure:
        return Failure(self.message, self.details, undone=True)


@contextmanager
def refusals(request_id: str) -> Iterator[None]:
    """Convert scheduler errors to CannotPlaceError. Unavailable passes through, because the step is then retried."""
    try:
        yield
    except Unavailable:
        raise
    except KilonovaError as error:
        raise CannotPlaceError(error.message) from error
    except Exception as error:
        LOG.exception("Scheduling failed [%s]", request_id)
        raise CannotPlaceError("Scheduling failed.", f"{type(error).__name__}: {error}") from error
