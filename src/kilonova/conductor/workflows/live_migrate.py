# SPDX-License-Identifier: Apache-2.0
"""Live migration: copy the running guest, then run the copy. Users can abort the migration until the copy is complete.

::

    claim ──▶ bindings ──▶ prepare ──▶ copy ──▶ activate ──▶ ports ──▶ switch ──▶ clean-up ──▶ done
                                       └─ point of no return

The ports of a server with networks are bound to both hosts while it is copied. When the guest runs at the destination,
the bindings there are activated, and those to the source are removed.
"""

import logging
from dataclasses import replace
from functools import partial

from kilonova.conductor.workflow_engine.effects import Completed, Effect, Failed, SendToAgent
from kilonova.conductor.workflow_engine.run import DELETES, Failure, Interrupt, Run
from kilonova.conductor.workflow_engine.services import Services
from kilonova.conductor.workflow_engine.step_kinds import one_way, sends
from kilonova.conductor.workflow_engine.workflow import Step, Workflow
from kilonova.conductor.workflows.endings import done_without_its_host, gone_with_its_host, settle
from kilonova.conductor.workflows.move_steps import abandon, advance, drop_source, return_home, switch
from kilonova.conductor.workflows.moves import (
    MoveFacts,
    came_to_nothing,
    claim_destination,
    give_destination_back,
    guest_there,
    migration_of,
    source,
)
from kilonova.conductor.workflows.network_steps import (
    FAULTS_OF_REQUESTS,
    given_to_ports,
    has_networks,
    ports_step,
    read,
    refusal,
    store,
)
from kilonova.db import moves
from kilonova.db.core.transaction import Transaction
from kilonova.errors import NotFound, PortBindingFailed
from kilonova.messaging.messages import (
    AbortLiveMigration,
    ActivateMigrated,
    ForceCompleteLiveMigration,
    LiveMigrate,
    PrepareLiveMigration,
)
from kilonova.model.instance import PowerState
from kilonova.model.server_migration import MigrationStatus, MoveKind
from kilonova.model.transitions import TRANSITIONS
from kilonova.network import bindings, ports

LOG = logging.getLogger(__name__)


def _prepare(services: Services, run: Run[MoveFacts]) -> Effect:
    guest = guest_there(services, run)
    if run.facts.networks:
        guest = replace(guest, vifs=run.facts.vifs_there)
    return SendToAgent(run.facts.host, PrepareLiveMigration(run.step_id, guest, run.facts.source))


def _bind_twice(services: Services, run: Run[MoveFacts]) -> Effect:
    """Bind the ports to the destination as well; their traffic still goes to the source."""
    facts, server = run.facts, read(services, run.instance_uuid, run.facts.host)
    profiles = given_to_ports(services, run, facts.profiles)
    try:
        there = bindings.prepare(services.network, server.owner, server.info, facts.host, profiles)
    except PortBindingFailed as error:
        return Failed(Failure(error.message, host=facts.host))
    except FAULTS_OF_REQUESTS as error:
        return Failed(refusal(error, facts.host))
    return Completed(replace(facts, vifs_there=there))


def _unbind_there(services: Services, run: Run[MoveFacts]) -> Effect:
    facts, server = run.facts, read(services, run.instance_uuid, run.facts.host)
    bindings.remove(services.network, server.owner, server.info, facts.host)
    return Completed(replace(facts, vifs_there=()))


def _activate_bindings(services: Services, run: Run[MoveFacts]) -> Effect:
    """Activate the bindings to the destination and remove those to the source. The guest has left the source."""
    facts, server = run.facts, read(services, run.instance_uuid, run.facts.host)
    try:
        info = bindings.activate(services.network, server.owner, server.info, facts.host)
    except NotFound:  # an operator has removed the binding
        LOG.warning(
            "Server %s: a binding to host %s was missing; the ports are bound again", run.instance_uuid, facts.host
        )
        profiles = given_to_ports(services, run, facts.profiles)
        info = ports.rebind(services.network, server.owner, server.info, facts.host, profiles=profiles)
    bindings.remove(services.network, server.owner, server.info, facts.source)
    return Completed(replace(facts, vifs_there=()), store(run, info))


def _copy(run: Run[MoveFacts]) -> LiveMigrate:
    return LiveMigrate(run.step_id, run.instance_uuid, run.facts.host)


def _activate(run: Run[MoveFacts]) -> ActivateMigrated:
    return ActivateMigrated(run.step_id, run.instance_uuid, run.facts.paused)


def _migrated(tx: Transaction, run: Run[MoveFacts], _power_state: PowerState | None) -> None:
    moves.confirm(tx, migration_of(tx, run))
    settle(tx, run, None, None)


_abort = sends(AbortLiveMigration, to=source)


LIVE_MIGRATE: Workflow[MoveFacts] = Workflow(
    "live-migrate",
    MoveFacts,
    (
        Step(
            "claim",
            do=partial(claim_destination, kind=MoveKind.LIVE_MIGRATE, becomes=MigrationStatus.PREPARING),
            undo=give_destination_back,
            event="conductor_live_migrate_instance",
            blocking=has_networks,  # asks the network service what the ports require
        ),
        replace(ports_step(_bind_twice, _unbind_there, event="compute_pre_live_migration"), name="bindings"),
        Step(
            "prepare",
            do=_prepare,
            undo=abandon,
            on_undone=gone_with_its_host,
            on_reply=advance(MigrationStatus.QUEUED),
            event="compute_pre_live_migration",
        ),
        Step(
            "copy",
            do=sends(_copy, to=source),
            undo=return_home,
            on_reply=advance(MigrationStatus.POST_MIGRATING),
            event="compute_live_migration",
            interrupts={
                **dict.fromkeys((Interrupt.ABORT, *DELETES), _abort),
                Interrupt.FORCE_COMPLETE: sends(ForceCompleteLiveMigration, to=source),
            },
        ),
        one_way("activate", sends(_activate), event="compute_post_live_migration_at_destination"),
        ports_step(_activate_bindings, event="compute_post_live_migration_at_destination"),
        one_way("switch", switch),
        one_way("clean-up", drop_source, on_reply=done_without_its_host),
    ),
    TRANSITIONS["live-migrate"],
    settle=_migrated,
    unwound=came_to_nothing,
    action="live-migration",
    done="migrated",
    point_of_no_return="copy",
    overtaken_by=DELETES | {Interrupt.ABORT},
    is_move=True,
)
