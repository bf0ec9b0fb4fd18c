# SPDX-License-Identifier: Apache-2.0
"""Rebuild: recreate the guest on its host, from the same image or another one.

::

    check ──▶ rebuild ──▶ done (active, or stopped if it was)

The transaction that starts the rebuild changes the server's image, key and user data, so that clients see the new
values at once. A failed rebuild restores the old values and leaves the server in error. The server may be rebuilt
again.

A soft delete waits until the host has carried out the rebuild order, because a restore starts the new guest.
"""

from collections.abc import Mapping
from dataclasses import field, replace

from kilonova.conductor.workflow_engine.effects import Completed, Effect, Failed, SendToAgent
from kilonova.conductor.workflow_engine.placing_errors import CannotPlaceError, refusals
from kilonova.conductor.workflow_engine.run import Interrupt, Run
from kilonova.conductor.workflow_engine.services import Services
from kilonova.conductor.workflow_engine.step_kinds import one_way, writes
from kilonova.conductor.workflow_engine.workflow import NOTHING, Step, Workflow
from kilonova.conductor.workflows.endings import failed, settled
from kilonova.conductor.workflows.guest_description import describe, find_server
from kilonova.db import instances, request_specs
from kilonova.db.core.transaction import Transaction
from kilonova.messaging.messages import RebuildGuest
from kilonova.model.instance import Instance, PowerState, TaskState
from kilonova.model.server_migration import MoveKind
from kilonova.model.transitions import TRANSITIONS
from kilonova.records import dataclass


@dataclass(frozen=True, slots=True)
class MadeOf:
    """Image, key pair and request spec of a server. The spec ``request_spec_uuid`` also holds the user data."""

    image_ref: str | None = None
    image_properties: Mapping[str, str] = field(default_factory=dict)
    key_name: str | None = None
    request_spec_uuid: str | None = None

    @classmethod
    def present(cls, instance: Instance) -> "MadeOf":
        return cls(instance.image_ref, instance.image_properties, instance.key_name, instance.request_spec_uuid)


@dataclass(frozen=True, slots=True)
class RebuildFacts:
    """Facts of a rebuild. ``host``, ``node``: where the guest is. ``runs``: True if the guest runs after the rebuild.

    ``before``: image, key and request spec before the rebuild. ``new_image``: the image changes, so the filters check
    whether the host suits the new image.
    """

    host: str
    node: str
    runs: bool = True
    new_image: bool = False
    before: MadeOf = field(default_factory=MadeOf)


def _check(services: Services, run: Run[RebuildFacts]) -> Effect:
    """Check that the server's host passes the filters with a new image. Nothing is claimed."""
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
    """Restore the records of the server's image, key and request spec. The host does not restore the guest."""
    made_of(tx, run.instance_uuid, run.facts.before)


def made_of(tx: Transaction, instance_uuid: str, wanted: MadeOf, *, keep_request: bool = False) -> None:
    """Record image, key and request spec of a server. Raises: NotFound.

    The previous request spec is deleted if no server uses it any more. ``keep_request``: keep it in any case.
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
    if run.interrupt is not Interrupt.DELETE:  # the release before stores it for a soft delete, which sets the states
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
            interrupts={Interrupt.SOFT_DELETE: NOTHING},
            repeats=True,
        ),
    ),
    TRANSITIONS["rebuild"],
    settle=_rebuilt,
    unwound=failed,
    action="rebuild",
    done="rebuilt",
)
