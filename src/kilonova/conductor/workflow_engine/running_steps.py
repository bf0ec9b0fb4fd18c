# SPDX-License-Identifier: Apache-2.0
"""Running steps as users see them: instance action events that have started and not finished."""

from collections.abc import Mapping
from typing import Any

from sqlalchemy.engine import Connection

from kilonova.clock import utc_now
from kilonova.conductor.workflow_engine.facts import UnknownFactsError
from kilonova.conductor.workflow_engine.workflow import Workflow
from kilonova.db import workflows
from kilonova.db.instance_actions import Event
from kilonova.db.workflows import WorkflowRow


def events_under_way(
    connection: Connection, registry: Mapping[str, Workflow[Any]], instance_uuid: str, request_id: str
) -> tuple[Event, ...]:
    """Return the events of an action's running steps. A step that is being undone has no running event."""
    rows = workflows.of_instance(connection, instance_uuid)
    events = (_event(registry.get(row.kind), row) for row in rows if row.request_id == request_id)
    return tuple(event for event in events if event is not None)


def _event(workflow: Workflow[Any] | None, row: WorkflowRow) -> Event | None:
    if workflow is None or not workflow.has(row.step) or row.waiting or row.undoing or row.stuck:
        return None
    name = workflow.step(row.step).event
    if name is None or workflow.action is None:
        return None
    try:
        host = workflow.run(row).facts.host
    except UnknownFactsError:
        host = None
    return Event(name, row.since or utc_now(), host=host)
