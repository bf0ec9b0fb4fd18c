# SPDX-License-Identifier: Apache-2.0
"""Every message, frozen. To an agent: do something with a guest. To the conductor: what came of it, who is alive.

A message is listed where it is defined: at the end of its file, with others of its kind. What those files define can be
imported from here.
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

#: Overtake the queue of their instance and are handled at once, even while something long runs for it.
Interrupt = LiveMigrationInterrupt | CancelSnapshot | AskStep
#: Carried out one after the other for each instance, and answered with a :class:`StepReply`.
Order = GuestOrder | RescueOrder | ColdMoveOrder | LiveMigrationOrder | SnapshotOrder | ImageOrder | CallOff
AgentMessage = Order | Interrupt | AskGuests | AskPowerStates | GuestQuestion
#: Reports of guests, and answers that no process in particular awaits.
GuestReport = GuestsFound | PowerStates | PowerStatesAnswer
ConductorMessage = StepReply | StepStatus | TaskReached | MigrationProgress | GuestReport | GuestAnswer
