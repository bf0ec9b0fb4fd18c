# SPDX-License-Identifier: Apache-2.0
"""All messages, as frozen dataclasses: orders and queries to agents; replies, reports and heartbeats to the conductor.

The union at the end of each file lists its messages by kind. All names of these files can be imported from here.
"""

from kilonova.messaging.messages.cold_moves import *
from kilonova.messaging.messages.guests import *
from kilonova.messaging.messages.images import *
from kilonova.messaging.messages.live_migrations import *
from kilonova.messaging.messages.power_states import *
from kilonova.messaging.messages.questions import *
from kilonova.messaging.messages.rescues import *
from kilonova.messaging.messages.sessions import *
from kilonova.messaging.messages.snapshots import *
from kilonova.messaging.messages.steps import *

#: Messages that overtake the queue of their instance and are handled at once, even while a long order runs for it.
Interrupt = LiveMigrationInterrupt | CancelSnapshot | AskStep
#: Messages that are carried out one after the other for each instance, and answered with a :class:`StepReply`.
Order = GuestOrder | RescueOrder | ColdMoveOrder | LiveMigrationOrder | SnapshotOrder | ImageOrder | CallOff
AgentMessage = Order | Interrupt | AskGuests | AskPowerStates | GuestQuestion
#: Reports about guests, which any control process may handle.
GuestReport = GuestsFound | PowerStates | PowerStatesAnswer
ConductorMessage = StepReply | StepStatus | TaskReached | MigrationProgress | GuestReport | GuestAnswer
