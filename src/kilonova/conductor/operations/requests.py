# SPDX-License-Identifier: Apache-2.0
"""Change what was asked for a server that is there: its hints, and whether it is in its server group."""

from collections.abc import Mapping

from kilonova.conductor.operations.starting import Starter, record_at_once
from kilonova.db import group_guards, instances, request_specs, workflows
from kilonova.db.core.transaction import Transaction
from kilonova.errors import Conflict, NotFound
from kilonova.model.instance import Instance
from kilonova.model.requester import Requester


class Requests:
    """Both are done at once, in one transaction with the action that tells of them; later moves find them.

    Refused while an operation of the server is under way: that one decides with what it has read.
    """

    def __init__(self, starter: Starter) -> None:
        self._database = starter.services.database

    def leave_group(self, uuid: str, group_uuid: str, who: Requester) -> None:
        """Take a server out of its group. Where it runs it stays, and no other member has to heed it any more.

        Raises: NotFound, when there is no such server or it is in another group; Conflict.
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
        """Replace the hints of a server, and return them with that of its group, which stays.

        ``unseen``: instances in them that whoever asks may not see. Raises: NotFound; Conflict.
        """

        def change(tx: Transaction) -> Mapping[str, tuple[str, ...]]:
            instance = _at_rest(tx, uuid)
            asked = request_specs.get_many(tx.connection, [instance]).get(uuid)
            if asked is None:
                raise Conflict(f"What was asked for server {uuid} is not known any more.")
            kept = {**hints, **{name: value for name, value in asked.spec.hints.items() if name == "group"}}
            request_specs.change(tx, uuid, hints=kept, unseen_instances=unseen)
            record_at_once(tx, instance, who, "set_scheduler_hints", "api_set_scheduler_hints")
            return kept

        return self._database.write(change)


def _at_rest(tx: Transaction, uuid: str) -> Instance:
    """Return a server of which no operation is under way. Raises: NotFound, Conflict."""
    instance = instances.get(tx.connection, uuid)
    if instance.task_state is not None or workflows.of_instance(tx.connection, uuid):
        raise Conflict(f"An operation of server {uuid} is under way. Try again when it has ended.")
    return instance
