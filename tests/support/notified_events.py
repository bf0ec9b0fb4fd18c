# SPDX-License-Identifier: Apache-2.0
"""Events and servers that notifications are about."""

from kilonova.model.flavor import Flavor
from kilonova.model.instance import Instance, PowerState, VmState
from kilonova.model.requester import Requester
from kilonova.notifications.events import FlavorActed
from kilonova.notifications.message import Format
from kilonova.notifications.message_builder import MessageBuilder

WORDING = MessageBuilder("here", frozenset(Format))
WHO = Requester("req-1", "alice", "wonder")


def resource_event(name: str = "m1.tiny") -> FlavorActed:
    """Return the creation of a flavor."""
    return FlavorActed("create", Flavor("1", name, 1, 512, 1), ())


def stopped_server(**facts: object) -> Instance:
    common = {"flavor": Flavor("1", "m1.tiny", 1, 512, 1, 2), "power_state": PowerState.SHUTDOWN, **facts}
    return Instance(7, "u", "web", "wonder", "alice", VmState.STOPPED, **common)  # type: ignore[arg-type]
