# SPDX-License-Identifier: Apache-2.0
"""Rescue and unrescue: start the guest from a rescue image with its own disk attached, or from its own disk again.

If the host reports a failure, the guest is as before. A hard reboot of a server in error always starts the guest from
its own disk.
"""

from dataclasses import field, replace

from kilonova.conductor.workflow_engine.effects import Effect, SendToAgent
from kilonova.conductor.workflow_engine.run import Run
from kilonova.conductor.workflow_engine.services import Services
from kilonova.conductor.workflow_engine.step_kinds import order, sends
from kilonova.conductor.workflow_engine.workflow import Workflow
from kilonova.conductor.workflows.endings import fail, failing, settled
from kilonova.conductor.workflows.guest_description import config_drive_for, find_server, kept_guest
from kilonova.conductor.workflows.host_facts import HostFacts
from kilonova.db import instances
from kilonova.db.core.transaction import Transaction
from kilonova.messaging.messages import RescueGuest, UnrescueGuest
from kilonova.model.image import Image
from kilonova.model.image_properties import shutdown_timeout_s
from kilonova.model.instance import PowerState
from kilonova.model.transitions import TRANSITIONS
from kilonova.records import dataclass


@dataclass(frozen=True, slots=True)
class RescueFacts:
    """Facts of a rescue. ``host``: host of the guest. ``image``: the rescue image.

    ``admin_password``: login password of the rescue system; it is removed from the journal after the step.
    """

    host: str
    image: Image
    admin_password: str = field(default="", repr=False)


def _rescue(services: Services, run: Run[RescueFacts]) -> Effect:
    with services.database.read() as connection:
        instance, request = find_server(connection, run.instance_uuid)
    facts = run.facts
    guest = kept_guest(services.database, instance, request, run.row.since)
    drive = config_drive_for(services, facts.host, instance, request)
    if drive is not None:
        guest = replace(guest, config_drive=replace(drive, admin_pass=facts.admin_password or None))
    message = RescueGuest(
        run.step_id,
        guest,
        facts.image.id,
        services.image_data(facts.host, facts.image),
        facts.admin_password,
        facts.image.properties,
        shutdown_timeout_s(instance.image_properties),
    )
    return SendToAgent(facts.host, message)


def _rescued(tx: Transaction, run: Run[RescueFacts], power_state: PowerState | None) -> None:
    """Settle a rescued server. As in Nova, ``launched_at`` is set again, and ``rescue_timeout`` counts from it."""
    settled(tx, run, power_state)
    instances.change(tx, run.instance_uuid, launched_at=tx.now)


def _failed(tx: Transaction, run: Run[RescueFacts] | Run[HostFacts]) -> None:
    """Leave the server in error, unless its host never received the order."""
    vm_state = None if run.failure.undone else TRANSITIONS[run.row.kind].failed
    fail(tx, run, vm_state, run.failure.known_power_state)


RESCUE = Workflow(
    "rescue",
    RescueFacts,
    (order("act", _rescue, event="compute_rescue_instance"),),
    TRANSITIONS["rescue"],
    settle=_rescued,
    unwound=failing(_failed),
    action="rescue",
    done="rescued",
)
UNRESCUE: Workflow[HostFacts] = Workflow(
    "unrescue",
    HostFacts,
    (order("act", sends(UnrescueGuest), event="compute_unrescue_instance"),),
    TRANSITIONS["unrescue"],
    settle=settled,
    unwound=failing(_failed),
    action="unrescue",
    done="unrescued",
)
