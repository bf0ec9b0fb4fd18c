# SPDX-License-Identifier: Apache-2.0
"""The story of a server in the log: one line for each thing that happened to it, always worded like this::

    Server UUID EVENT[: DETAILS] [REQUEST ID]

Call these after the commit that made it so, and never under a lock. What users wrote is not part of a line.
"""

import logging

from kilonova.db.workflows import Workflow

LOG = logging.getLogger(__name__)


def created(flow: Workflow) -> None:
    """The server is stored, and its user has been promised it."""
    _tell(flow, "created")


def withdrawn(flow: Workflow) -> None:
    """The server was stored, but its request was interrupted before it was answered."""
    _tell(flow, "withdrawn", "its request was interrupted before it was answered")


def placed(flow: Workflow) -> None:
    """A host was claimed for it."""
    _tell(flow, "placed", f"host {flow.body['host']}, node {flow.body['node']}")


def done(flow: Workflow, event: str) -> None:
    """An operation succeeded: the server is ``spawned``, ``started``, ``stopped``, ``rebooted`` or ``deleted``."""
    host = flow.body.get("host")
    _tell(flow, event, f"host {host}" if host else "")


def failed(flow: Workflow, reason: str, *, host: str | None = None) -> None:
    """An operation failed for good. ``host``: where, if that is known."""
    where = f" on host {host}" if host else ""
    _tell(flow, "failed", f"{flow.kind}{where}: {reason}")


def tries_again(flow: Workflow, reason: str) -> None:
    """A build failed on one host, and another one is tried."""
    _tell(flow, "failed to spawn", f"host {flow.body['host']}: {reason} Another host is tried.")


def _tell(flow: Workflow, event: str, details: str = "") -> None:
    LOG.info("Server %s %s%s [%s]", flow.instance_uuid, event, f": {details}" if details else "", flow.request_id)
