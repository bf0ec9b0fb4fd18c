# SPDX-License-Identifier: Apache-2.0
"""The log lines of a server's lifecycle: one line per event, always in this form::

    Server UUID EVENT[: DETAILS] [REQUEST ID]

A line is logged after the commit of its event, and never under a lock. It contains no text that users wrote.
"""

import logging
from datetime import datetime

from kilonova.conductor.workflow_engine.events import Phase, WorkflowEvent

LOG = logging.getLogger(__name__)


def tell(event: WorkflowEvent) -> None:
    """Log a workflow event if it is relevant to an operator.

    Relevant events: a workflow is done, failed, restarted, interrupted, stuck, or waits for an absent host.
    """
    if not event.instance_uuid:
        return
    where = f" on host {event.host}" if event.host else ""
    match event.phase:
        case Phase.DONE:
            _line(event, event.word, f"host {event.host}" if event.host else "")
        case Phase.FAILED:
            _line(event, "failed", f"{event.kind}{where}: {event.message}")
        case Phase.RESTARTED:
            _line(event, f"failed to {event.step}", f"host {event.host}: {event.message} Another host is tried.")
        case Phase.INTERRUPTED:
            _line(event, "interrupted", f"{event.kind}: {event.message}")
        case Phase.AWAITS_HOST:
            _line(event, "waits", f"{event.kind} at step {event.step}: host {event.host} is absent")
        case Phase.STUCK:
            _line(event, "stuck", f"{event.kind} at step {event.step}{where}: {event.message}")
        case _:
            pass


def placed(instance_uuid: str, request_id: str, host: str, node: str) -> None:
    """Log that a host was claimed for a server that had none: a new or an unshelved one."""
    LOG.info("Server %s placed: host %s, node %s [%s]", instance_uuid, host, node, request_id)


def created(instance_uuid: str, request_id: str) -> None:
    """Log that a server was stored and its create request accepted."""
    LOG.info("Server %s created [%s]", instance_uuid, request_id)


def not_built(instance_uuid: str, request_id: str, reason: str) -> None:
    """Log that a server failed because no host was found for it or for another server of its request."""
    LOG.info("Server %s failed: build: %s [%s]", instance_uuid, reason, request_id)


def moves(instance_uuid: str, request_id: str, source: str, destination: str) -> None:
    """Log that a destination was claimed for a server."""
    LOG.info("Server %s moves: host %s to host %s [%s]", instance_uuid, source, destination, request_id)


def withdrawn(instance_uuid: str, request_id: str) -> None:
    """Log that a server was removed because its create request was interrupted before the response."""
    reason = "its request was interrupted before it was answered"
    LOG.info("Server %s withdrawn: %s [%s]", instance_uuid, reason, request_id)


def reclaimed(instance_uuid: str, request_id: str, deleted_at: datetime | None) -> None:
    """Log that a soft-deleted server is deleted after reclaim_instance_interval."""
    since = "" if deleted_at is None else f": it has been soft-deleted since {deleted_at:%Y-%m-%dT%H:%M:%SZ}"
    LOG.info("Server %s reclaimed%s [%s]", instance_uuid, since, request_id)


def timed_out(instance_uuid: str, request_id: str, kind: str, seconds: str) -> None:
    """Log that an operation exceeded its timeout and is rolled back."""
    LOG.info("Server %s failed: %s: the operation took longer than %s s [%s]", instance_uuid, kind, seconds, request_id)


def confirmed_by_itself(instance_uuid: str, request_id: str, seconds: str) -> None:
    """Log that a resize is confirmed automatically after resize_confirm_window."""
    LOG.info("Server %s is confirmed: its resize waited for %s s [%s]", instance_uuid, seconds, request_id)


def unrescued_by_itself(instance_uuid: str, request_id: str, seconds: str) -> None:
    """Log that a server is unrescued automatically after rescue_timeout."""
    LOG.info("Server %s is unrescued: it was rescued %s s ago [%s]", instance_uuid, seconds, request_id)


def retried(instance_uuid: str, request_id: str, kind: str, step: str, user_id: str) -> None:
    """Log that an operator retries a stuck workflow."""
    LOG.info(
        "Server %s retried: %s at step %s, asked for by user %s [%s]", instance_uuid, kind, step, user_id, request_id
    )


def abandoned(instance_uuid: str, request_id: str, kind: str, step: str, user_id: str) -> None:
    """Log that an operator abandons a workflow."""
    LOG.info(
        "Server %s abandoned: %s at step %s, asked for by user %s [%s]", instance_uuid, kind, step, user_id, request_id
    )


def _line(event: WorkflowEvent, what: str, details: str) -> None:
    LOG.info("Server %s %s%s [%s]", event.instance_uuid, what, f": {details}" if details else "", event.request_id)
