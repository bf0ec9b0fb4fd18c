# SPDX-License-Identifier: Apache-2.0
"""Storage of the servers of a create request with their workflows, within the quotas.

Concurrent requests share a transaction. A request that is too big for one transaction is stored in pieces, and gets a
leader workflow for all its servers (ADR 12).
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from kilonova.conductor.workflow_engine import server_log
from kilonova.conductor.workflow_engine.run import TAKEN_OVER
from kilonova.conductor.workflow_engine.runner import Runner
from kilonova.conductor.workflow_engine.services import Services
from kilonova.conductor.workflows.batch import BATCH, BatchFacts
from kilonova.conductor.workflows.build import BUILD, BuildFacts, BuildMemo
from kilonova.db import group_guards, instance_actions, instance_networks, instances, quotas, request_specs, workflows
from kilonova.db.core.transaction import Transaction, batched
from kilonova.db.instance_actions import NewAction
from kilonova.db.workflows import WorkflowRow
from kilonova.errors import OverQuota, Unavailable
from kilonova.identifiers import new_uuid
from kilonova.model.instance import Instance
from kilonova.model.network_request import NO_NETWORKS, NetworkRequest
from kilonova.model.quota import Limits, QuotaRequest, Usage
from kilonova.model.request_spec import StoredRequest
from kilonova.records import dataclass


@dataclass(frozen=True, slots=True)
class NewServers:
    """The instances of a create request. ``rows``: the workflow of each instance.

    ``networks``: the networks of each instance. ``at_least``: minimum number of instances to store. ``limits``: quotas
    from an external service (unified limits); None to use the quotas in the database.
    """

    instances: tuple[Instance, ...]
    request: StoredRequest
    rows: tuple[WorkflowRow, ...]
    at_least: int
    limits: Limits | None
    networks: NetworkRequest = NO_NETWORKS

    def quota(self) -> QuotaRequest:
        """Return the quota request for all servers."""
        first = self.instances[0]
        counted = Usage.of(first.flavor), self.at_least, len(self.instances), len(first.metadata)
        return QuotaRequest(first.project_id, first.user_id, *counted, self.request.group_uuid, self.limits)

    def only(self, count: int) -> "NewServers":
        """Return the request reduced to its first ``count`` servers."""
        if count == len(self.instances):
            return self
        spec = replace(self.request.spec, instance_uuids=self.request.spec.instance_uuids[:count])
        request = replace(self.request, spec=spec)
        return replace(self, instances=self.instances[:count], request=request, rows=self.rows[:count])

    def piece(self, start: int, size: int, at_least: int) -> "NewServers":
        """Return the request reduced to ``size`` of its servers, from index ``start`` on."""
        some = slice(start, start + size)
        return replace(self, instances=self.instances[some], rows=self.rows[some], at_least=at_least)


def build_row(instance: Instance, request_id: str, networks: NetworkRequest) -> WorkflowRow:
    """Return the row of a new build workflow at its first step."""
    row = WorkflowRow(
        uuid=new_uuid(),
        kind=BUILD.kind,
        instance_uuid=instance.uuid,
        reservation_id=instance.reservation_id,
        request_id=request_id,
        step="",
    )
    return BUILD.first_row(row, BuildFacts(networks=bool(networks.networks)))


class ServerStore:
    """Operation that stores the servers of create requests and starts their builds."""

    def __init__(self, services: Services, runner: Runner) -> None:
        self._services = services
        self._database = services.database
        self._runner = runner
        self._store = batched(self._store_batch)

    def store(self, asked: NewServers) -> None:
        """Store the servers of a request and start their builds. Returns after the commit.

        Raises: OverQuota; any error of the storing. After an error, no server of the request is stored.
        """
        if len(asked.instances) > self._services.claimer.piece:
            self._store_in_pieces(asked)
            return
        numbers = self._database.write_batched(self._store, asked)
        stored = asked.only(len(numbers))
        memos = {
            row.uuid: BuildMemo(replace(instance, id=numbers[instance.uuid]), stored.request, stored.networks)
            for row, instance in zip(stored.rows, stored.instances, strict=True)
        }
        for row in stored.rows:
            server_log.created(row.instance_uuid, row.request_id)
        self._runner.begin(stored.rows, memos)

    def _store_batch(self, tx: Transaction, asked: Sequence[NewServers]) -> Sequence[Mapping[str, int] | BaseException]:
        """Store requests within their quotas; return for each request a mapping uuid → database id, or an OverQuota."""
        granted = quotas.take(tx, [new.quota() for new in asked], self._services.limits)
        requests = [new.only(count) for new, count in zip(asked, granted, strict=True) if isinstance(count, int)]
        if not requests:
            return [count for count in granted if isinstance(count, OverQuota)]
        request_specs.insert(tx, [new.request for new in requests])
        self._insert(tx, requests)
        reservations = {instance.reservation_id for new in requests for instance in new.instances}
        numbers = instances.numbers(tx.connection, reservations)
        stored = iter(requests)
        return [
            count if isinstance(count, OverQuota) else {i.uuid: numbers[i.uuid] for i in next(stored).instances}
            for count in granted
        ]

    def _insert(self, tx: Transaction, requests: Sequence[NewServers]) -> None:
        """Insert instances with their networks, workflows, instance actions and group memberships."""
        instances.insert(tx, [(instance, new.request.group_uuid) for new in requests for instance in new.instances])
        for new in requests:
            if new.request.group_uuid is not None:
                group_guards.add_members(tx, new.request.group_uuid, [instance.uuid for instance in new.instances])
        asked = {each.uuid: new.networks for new in requests if new.networks.networks for each in new.instances}
        instance_networks.insert(tx, asked)
        workflows.insert(tx, [row for new in requests for row in new.rows], self._services.owner)
        assert BUILD.action is not None
        begun = [
            NewAction(each.uuid, BUILD.action, new.request.spec.request_id, each.user_id, each.project_id)
            for new in requests
            for each in new.instances
        ]
        instance_actions.begin(tx, begun)

    def _store_in_pieces(self, asked: NewServers) -> None:
        """Store the servers of a big request in pieces. The quota usage of each piece is claimed with the piece.

        If the quotas do not allow all servers, fewer servers are stored, but at least the requested minimum.
        """
        spec = asked.request.spec
        row = WorkflowRow(
            uuid=new_uuid(),
            kind=BATCH.kind,
            instance_uuid="",
            reservation_id=asked.instances[0].reservation_id,
            request_id=spec.request_id,
            step="",
        )
        leader = BATCH.first_row(row, BatchFacts(asked.request.uuid))
        claiming = BATCH.after(BATCH.run(leader))
        assert claiming is not None
        with self._database.read() as connection:
            asked = asked.only(quotas.room(connection, asked.quota(), self._services.limits))
        with self._runner.promise(leader.uuid):
            self._store_pieces(asked, leader, claiming)

    def _store_pieces(self, asked: NewServers, leader: WorkflowRow, claiming: WorkflowRow) -> None:
        """Store the pieces, then start the leader workflow, which claims hosts for all servers.

        After an error, the leader workflow is started, too: it then removes the servers that are already stored.
        """
        owner, size = self._services.owner, self._services.claimer.piece
        for start in range(0, len(asked.instances), size):
            needed = min(size, max(0, asked.at_least - start))
            piece = asked.piece(start, size, needed)
            piece = replace(piece, rows=tuple(replace(row, batch_uuid=leader.uuid) for row in piece.rows))
            is_first, is_last = start == 0, start + size >= len(asked.instances)

            def write(tx: Transaction) -> int:
                (count,) = quotas.take(tx, [piece.quota()], self._services.limits)  # noqa: B023 - runs at once
                if isinstance(count, OverQuota):
                    raise count
                if is_first:  # noqa: B023
                    request_specs.insert(tx, [asked.request])
                    workflows.insert(tx, [leader], owner)
                if count:
                    self._insert(tx, [piece.only(count)])  # noqa: B023
                if is_last or count < len(piece.instances):  # noqa: B023
                    workflows.move(tx, claiming, owner)
                else:
                    workflows.require(tx, leader, owner)
                return count

            try:
                count = self._database.write(write)
            except BaseException as error:
                if not is_first:
                    self._runner.begin([leader])  # removes the stored servers: it has not begun to claim hosts
                if isinstance(error, TAKEN_OVER):
                    raise Unavailable("The request was interrupted; send it again.") from error
                raise
            for row in piece.rows[:count]:
                server_log.created(row.instance_uuid, row.request_id)
            if count < len(piece.instances):
                break  # concurrent requests have used up the quota
        self._runner.begin([claiming])
