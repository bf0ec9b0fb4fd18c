# SPDX-License-Identifier: Apache-2.0
"""Changes of a server's stored request: scheduler hints and server group membership."""

from collections.abc import Mapping

from kilonova.conductor.operations.starting import Starter, record_at_once
from kilonova.db import group_guards, instances, request_specs, workflows
from kilonova.db.core.transaction import Transaction
from kilonova.errors import Conflict, NotFound
from kilonova.model.instance import Instance
from kilonova.model.requester import Requester


class Requests:
    """Operations that change a server's stored request, which the scheduler uses for later moves of the server.

    Each operation is one transaction, which records its instance action. The operation is refused while a workflow of
    the server is running, because the workflow may have read the old request.
    """

    def __init__(self, starter: Starter) -> None:
        self._database = starter.services.database

    def leave_group(self, uuid: str, group_uuid: str, who: Requester) -> None:
        """Remove a server from its group. The server stays on its host; the group's policy no longer applies to it.

        Raises: NotFound if the server does not exist or is not in this group; Conflict.
        """

        def leave(tx: Transaction) -> None:
            instance = _at_rest(tx, uuid)
            if instances.group_of(tx.connection, uuid) != group_uuid:
                raise NotFound(f"Server {uuid} is no member of server group {group_uuid}.")
            instances.leave_group(tx, uuid)
            group_guards.forget_members(tx, [uuid])
            group_guards.recount(tx, group_uuid)
            request_specs.leave_group(tx, uuid)
            record_at_once(tx, instance, who, "leave_server_group", "api_leave_server_group")

        self._database.write(leave)

    def set_hints(
        self, uuid: str, hints: Mapping[str, tuple[str, ...]], unseen: frozenset[str], who: Requester
    ) -> Mapping[str, tuple[str, ...]]:
        """Replace all scheduler hints of a server except "group"; return the new hints, with "group".

        ``unseen``: instances in the hints that the requester may not see. Raises: NotFound; Conflict.
        """

        def change(tx: Transaction) -> Mapping[str, tuple[str, ...]]:
            instance = _at_rest(tx, uuid)
            asked = request_specs.get_many(tx.connection, [instance]).get(uuid)
            if asked is None:
                raise Conflict(f"The stored request of server {uuid} no longer exists.")
            kept = {**hints, **{name: value for name, value in asked.spec.hints.items() if name == "group"}}
            request_specs.change(tx, uuid, hints=kept, unseen_instances=unseen)
            record_at_once(tx, instance, who, "set_scheduler_hints", "api_set_scheduler_hints")
            return kept

        return self._database.write(change)


def _at_rest(tx: Transaction, uuid: str) -> Instance:
    """Return a server that has no task state and no workflow. Raises: NotFound, Conflict."""
    instance = instances.get(tx.connection, uuid)
    if instance.task_state is not None or workflows.of_instance(tx.connection, uuid):
        raise Conflict(f"An operation of server {uuid} is running. Try again when it has ended.")
    return instance
