# SPDX-License-Identifier: Apache-2.0
"""All messages, as frozen dataclasses: orders and queries to agents; replies, reports and heartbeats to the conductor.

Each module ends with unions of its messages, by kind. All names of these modules can be imported from this package.
"""

from kilonova.messaging.messages.cold_moves import *
from kilonova.messaging.messages.guests import *
from kilonova.messaging.messages.images import *
from kilonova.messaging.messages.interfaces import *
from kilonova.messaging.messages.live_migrations import *
from kilonova.messaging.messages.metadata import *
from kilonova.messaging.messages.power_states import *
from kilonova.messaging.messages.questions import *
from kilonova.messaging.messages.rescues import *
from kilonova.messaging.messages.sessions import *
from kilonova.messaging.messages.snapshots import *
from kilonova.messaging.messages.steps import *

#: Messages that an agent handles at once, without waiting for queued or running orders of the same instance.
Interrupt = LiveMigrationInterrupt | CancelSnapshot | AskStep
#: Messages that an agent carries out one at a time for each instance, and answers with a :class:`StepReply`.
Order = (
    GuestOrder
    | RescueOrder
    | ColdMoveOrder
    | LiveMigrationOrder
    | SnapshotOrder
    | ImageOrder
    | InterfaceOrder
    | CallOff
)
#: Messages for which a process with agents waits for an :data:`Answer`.
Question = SessionQuestion | MetadataQuestion
Answer = SessionAnswer | MetadataAnswer
AgentMessage = Order | Interrupt | AskGuests | AskPowerStates | GuestQuestion
#: Reports about guests, which any control process may handle.
GuestReport = GuestsFound | PowerStates | PowerStatesAnswer
ConductorMessage = StepReply | StepStatus | TaskReached | MigrationProgress | GuestReport | GuestAnswer
