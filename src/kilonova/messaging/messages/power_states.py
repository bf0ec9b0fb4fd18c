# SPDX-License-Identifier: Apache-2.0
"""Power states of guests, as hypervisors report them. They can change without an order from Kilonova."""

from collections.abc import Mapping
from dataclasses import field

from kilonova.messaging.messages.steps import StepId
from kilonova.model.instance import PowerState
from kilonova.records import dataclass


@dataclass(frozen=True, slots=True)
class PowerStates:
    """Report of the power states of guests: host → guest → state.

    Sent when an agent starts, every ``sync_power_state_interval``, and for guests that changed without an order; a
    missing guest has NOSTATE. ``whole``: the report covers all guests of these hosts. ``resume``: the agents have just
    started, so the conductor may start guests that were running before and are off now.
    """

    guests: Mapping[str, Mapping[str, PowerState]]
    whole: bool = True
    resume: bool = False


@dataclass(frozen=True, slots=True)
class AskPowerStates:
    """Query of guests' power states. Answered with :class:`PowerStatesAnswer`, which repeats ``seen`` and ``resume``.

    ``seen``: guest → time of its server's last change when the query was sent; if the server has changed since, the
    answer is stale. The agent waits for the hypervisor, but not for queued orders. The query belongs to no workflow.
    """

    step: StepId
    seen: Mapping[str, str]
    resume: bool = False

    @property
    def instance_uuid(self) -> str:
        """Empty: the query is about several instances."""
        return ""


@dataclass(frozen=True, slots=True)
class PowerStatesAnswer:
    """Answer to :class:`AskPowerStates`. A queried guest that is not in ``guests`` does not exist on the host."""

    host: str
    guests: Mapping[str, PowerState]
    seen: Mapping[str, str] = field(default_factory=dict)
    resume: bool = False
