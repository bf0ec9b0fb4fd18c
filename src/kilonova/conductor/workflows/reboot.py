# SPDX-License-Identifier: Apache-2.0
"""Soft and hard reboot. A soft reboot shuts the guest down; a hard reboot powers it off, or recreates a missing guest.

::

    ports ──▶ act ──▶ done
               └─ soft: the guest does not run ──┐
               └─ hard: the guest is missing  ───┴──▶ act-hard, with the description of the guest ──▶ done

A hard reboot of a server with networks first looks its ports up, and binds them to the host if they are not bound. A
soft reboot of a guest that does not run continues as a hard reboot. This happens if the agent died between shutting the
guest down and starting it.
"""

import logging
from dataclasses import replace

from kilonova.conductor.workflow_engine.effects import Completed, Effect, Failed, SendToAgent
from kilonova.conductor.workflow_engine.run import (
    DELETES,
    Failure,
    Interrupt,
    Run,
    ServerGoneError,
    is_unreachable,
)
from kilonova.conductor.workflow_engine.services import Services
from kilonova.conductor.workflow_engine.step_kinds import order
from kilonova.conductor.workflow_engine.workflow import Do, Step, Workflow
from kilonova.conductor.workflows.endings import failed_at_host, settled
from kilonova.conductor.workflows.guest_description import describe
from kilonova.conductor.workflows.host_facts import NetworkedHostFacts
from kilonova.conductor.workflows.network_steps import ports_step, read, store
from kilonova.db import instances
from kilonova.errors import KilonovaError
from kilonova.messaging.messages import RebootGuest, StepReply
from kilonova.model.instance import GuestSpec, PowerState, TaskState
from kilonova.model.transitions import TRANSITIONS
from kilonova.network import ports

LOG = logging.getLogger(__name__)
_EVENT = "compute_reboot_instance"


def _soft(_services: Services, run: Run[NetworkedHostFacts]) -> Effect:
    message = RebootGuest(run.step_id, run.instance_uuid)
    return SendToAgent(run.facts.host, message, once={TaskState.REBOOT_STARTED: replace(message, begun=True)})


def _look_up_ports(services: Services, run: Run[NetworkedHostFacts]) -> Effect:
    """Renew the interfaces of the server. The reboot continues if the network service does not answer."""
    host = run.facts.host
    server = read(services, run.instance_uuid, host)
    try:
        info = ports.rebind(services.network, server.owner, server.info, host)
    except KilonovaError as error:
        LOG.warning("Server %s: ports not looked up: %s [%s]", run.instance_uuid, error.message, run.request_id)
        return Completed()
    return Completed(write=None if info == server.info else store(run, info))


def _hard(_services: Services, run: Run[NetworkedHostFacts]) -> Effect:
    return _send_hard(run, None)


def _hard_or_anew(services: Services, run: Run[NetworkedHostFacts]) -> Effect:
    try:
        return _send_hard(run, describe(services, run, run.facts.host))
    except ServerGoneError:
        return _send_hard(run, None)


def _send_hard(run: Run[NetworkedHostFacts], guest: GuestSpec | None) -> Effect:
    message = RebootGuest(run.step_id, run.instance_uuid, hard=True, guest=guest)
    return SendToAgent(run.facts.host, message, once={TaskState.REBOOT_STARTED_HARD: replace(message, begun=True)})


def _rebooted(_services: Services, run: Run[NetworkedHostFacts], reply: StepReply) -> Effect:
    """Reply handler of a reboot: a guest that runs counts as rebooted, even if the driver reported an error."""
    runs = reply.power_state is PowerState.RUNNING
    if reply.error is None and not runs:
        return Completed()
    if reply.error is None:
        return Completed(final=True, power_state=reply.power_state)
    if is_unreachable(reply) or not runs:
        return Failed(Failure.of(reply))
    LOG.warning("Server %s runs, although its reboot failed: %s [%s]", run.instance_uuid, reply.error, run.request_id)
    fault = reply.as_fault()
    return Completed(
        write=lambda tx, run: instances.record_fault(tx, run.instance_uuid, fault),
        final=True,
        power_state=reply.power_state,
    )


def _workflow(kind: str, do: Do[NetworkedHostFacts], *first: Step[NetworkedHostFacts]) -> Workflow[NetworkedHostFacts]:
    return Workflow(
        kind,
        NetworkedHostFacts,
        (
            *first,
            order("act", do, on_reply=_rebooted, event=_EVENT),
            order("act-hard", _hard_or_anew, on_reply=_rebooted, shows=TaskState.REBOOT_PENDING_HARD, event=_EVENT),
        ),
        TRANSITIONS[kind],
        settle=settled,
        unwound=failed_at_host,
        action="reboot",
        done="rebooted",
        overtaken_by=DELETES | {Interrupt.OTHER_ACTION},
    )


REBOOT = _workflow("reboot", _soft)
HARD_REBOOT = _workflow("hard-reboot", _hard, ports_step(_look_up_ports, event=_EVENT))
