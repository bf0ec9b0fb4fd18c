# SPDX-License-Identifier: Apache-2.0
"""Stop a server: shut its guest down, and power it off after a timeout; a forced stop powers it off at once.

After a failure, the server has a fault and no task state.
"""

from kilonova.conductor.workflow_engine.run import DELETES, Interrupt, Run
from kilonova.conductor.workflow_engine.step_kinds import order, sends
from kilonova.conductor.workflow_engine.workflow import Workflow
from kilonova.conductor.workflows.endings import failed, settled
from kilonova.messaging.messages import StopGuest
from kilonova.model.image_properties import shutdown_timeout_s
from kilonova.model.instance import Instance
from kilonova.model.transitions import TRANSITIONS
from kilonova.records import dataclass


@dataclass(frozen=True, slots=True)
class StopFacts:
    """Facts of a stop. ``host``: host of the guest. ``timeout_s``: seconds for the shutdown; None: host's default."""

    host: str
    timeout_s: float | None = None

    @classmethod
    def of(cls, instance: Instance) -> "StopFacts":
        """Return the facts of a graceful stop."""
        return cls(instance.host or "", shutdown_timeout_s(instance.image_properties))


def _stop(run: Run[StopFacts]) -> StopGuest:
    return StopGuest(run.step_id, run.instance_uuid, run.facts.timeout_s)


def _workflow(kind: str) -> Workflow[StopFacts]:
    return Workflow(
        kind,
        StopFacts,
        (order("act", sends(_stop), event="compute_stop_instance"),),
        TRANSITIONS[kind],
        settle=settled,
        unwound=failed,
        action="stop",
        done="stopped",
        overtaken_by=DELETES | {Interrupt.OTHER_ACTION},
    )


STOP, FORCE_STOP = _workflow("stop"), _workflow("force-stop")
