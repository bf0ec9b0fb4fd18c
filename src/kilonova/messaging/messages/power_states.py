# SPDX-License-Identifier: Apache-2.0
"""What guests do by themselves, or by somebody else's hand: the hypervisor's view of them."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from kilonova.messaging.messages.steps import StepId
from kilonova.model.instance import PowerState


@dataclass(frozen=True, slots=True)
class PowerStates:
    """In which states the guests of hosts are: host → guest → state.

    Told when an agent starts, every ``sync_power_state_interval``, and of those that have changed by themselves, with
    NOSTATE for one that is gone. ``whole``: these are all guests of these hosts. ``resume``: the agents have just come
    up, and guests that are off and ran before are to run again.
    """

    guests: Mapping[str, Mapping[str, PowerState]]
    whole: bool = True
    resume: bool = False


@dataclass(frozen=True, slots=True)
class AskPowerStates:
    """In which states are these guests? Answered with :class:`PowerStatesAnswer`, which repeats ``seen``, ``resume``.

    ``seen``: guest → when its server had changed last as the question was asked, so that an answer that an action has
    overtaken can be told. Waits for a hypervisor, but behind no order. Belongs to no workflow.
    """

    step: StepId
    seen: Mapping[str, str]
    resume: bool = False

    @property
    def instance_uuid(self) -> str:
        """It is about none in particular."""
        return ""


@dataclass(frozen=True, slots=True)
class PowerStatesAnswer:
    """The states of the guests that were asked about; of one that is not in ``guests`` the host has none."""

    host: str
    guests: Mapping[str, PowerState]
    seen: Mapping[str, str] = field(default_factory=dict)
    resume: bool = False
