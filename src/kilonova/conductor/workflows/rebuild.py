# SPDX-License-Identifier: Apache-2.0
"""Rebuild: the guest is made anew on the host where it is, from the same image or another one.

::

    check ──▶ rebuild ──▶ done (active, or stopped if it was)

What the server is made of changes in the transaction that starts the rebuild, so that clients see it at once. A rebuild
that fails gives the server back what it was made of before, and leaves it in error: it may be rebuilt again.

A delete does not take back what the host was told: the server may be soft-deleted, and restored with the guest that the
host makes. The delete's order waits at the host for that guest anyway.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from kilonova.conductor.workflow_engine.placing_errors import CannotPlaceError, refusals
from kilonova.conductor.workflow_engine.services import Services
from kilonova.conductor.workflow_engine.step_kinds import one_way, writes
from kilonova.conductor.workflow_engine.workflow import (
    NOTHING,
    Completed,
    Effect,
    Failed,
    Interrupt,
    Run,
    SendToAgent,
    Step,
    Workflow,
)
from kilonova.conductor.workflows.endings import failed, settled
from kilonova.conductor.workflows.guest_description import describe, find_server
from kilonova.db import instances, request_specs
from kilonova.db.core.transaction import Transaction
from kilonova.messaging.messages import RebuildGuest
from kilonova.model.instance import Instance, PowerState, TaskState
from kilonova.model.server_migration import MoveKind
from kilonova.model.transitions import TRANSITIONS


@dataclass(frozen=True, slots=True)
class MadeOf:
    """What a server is made of. ``request_spec_uuid``: of what was asked for it, its user data included."""

    image_ref: str | None = None
    image_properties: Mapping[str, str] = field(default_factory=dict)
    key_name: str | None = None
    request_spec_uuid: str | None = None

    @classmethod
    def present(cls, instance: Instance) -> "MadeOf":
        return cls(instance.image_ref, instance.image_properties, instance.key_name, instance.request_spec_uuid)


@dataclass(frozen=True, slots=True)
class RebuildFacts:
    """``host``, ``node``: where the guest is. ``runs``: whether it shall run afterwards. ``before``: as it was made.

    ``new_image``: another image was asked for, so the rules are asked whether the host suits it.
    """

    host: str
    node: str
    runs: bool = True
    new_image: bool = False
    before: MadeOf = field(default_factory=MadeOf)


def _check(services: Services, run: Run[RebuildFacts]) -> Effect:
    """Ask the rules about the host and the new image; nothing is claimed."""
    facts = run.facts
    if not facts.new_image:
        return Completed()
    with services.database.read() as connection:
        _, request = find_server(connection, run.instance_uuid)
    spec = request.spec.moving(MoveKind.REBUILD, run.instance_uuid, host=facts.host, node=facts.node)
    spec = replace(spec, request_id=run.request_id)
    try:
        with refusals(run.request_id):
            services.claimer.require_fit(spec, run.instance_uuid)
    except CannotPlaceError as refused:
        return Failed(replace(refused.failure, undone=False))
    return Completed()


def _rebuild(services: Services, run: Run[RebuildFacts]) -> Effect:
    host = run.facts.host
    return SendToAgent(host, RebuildGuest(run.step_id, describe(services, run, host), run.facts.runs))


def _give_back(tx: Transaction, run: Run[RebuildFacts]) -> None:
    """Say again what the server was made of before; the host has left the guest alone, or it is gone."""
    made_of(tx, run.instance_uuid, run.facts.before)


def made_of(tx: Transaction, instance_uuid: str, wanted: MadeOf, *, keep_request: bool = False) -> None:
    """Record what a server is made of. Raises: NotFound.

    What was asked for it until now goes where no server belongs to it any more, unless that has to be kept.
    """
    present = instances.get(tx.connection, instance_uuid)
    instances.change(
        tx,
        instance_uuid,
        image_ref=wanted.image_ref,
        image_properties=dict(wanted.image_properties),
        key_name=wanted.key_name,
        request_spec_uuid=wanted.request_spec_uuid,
    )
    instances.log(tx, instance_uuid)
    if present.request_spec_uuid not in {None, wanted.request_spec_uuid} and not keep_request:
        request_specs.delete_unused(tx, [str(present.request_spec_uuid)])


def _rebuilt(tx: Transaction, run: Run[RebuildFacts], power_state: PowerState | None) -> None:
    before = run.facts.before.request_spec_uuid
    if run.interrupt is not Interrupt.DELETE:  # which has said already what the server does now
        settled(tx, run, power_state, otherwise=not run.facts.runs)
    if before is not None:
        request_specs.delete_unused(tx, [before])


REBUILD = Workflow(
    "rebuild",
    RebuildFacts,
    (
        Step("check", do=_check, undo=writes(_give_back), event="rebuild_server"),
        one_way(
            "rebuild",
            _rebuild,
            shows=TaskState.REBUILD_SPAWNING,
            event="compute_rebuild_instance",
            interrupts={Interrupt.DELETE: NOTHING},
        ),
    ),
    TRANSITIONS["rebuild"],
    settle=_rebuilt,
    unwound=failed,
    action="rebuild",
    done="rebuilt",
)
