# SPDX-License-Identifier: Apache-2.0
"""Every message, frozen. To an agent: do something with a guest. To the conductor: what came of it, who is alive."""

from kilonova.messaging.messages.cold_moves import (
    AbandonMove,
    ConfirmMove,
    FinishMove,
    MoveAway,
    PendingRollback,
    ReturnHome,
)
from kilonova.messaging.messages.guests import (
    AskGuests,
    DestroyGuest,
    GuestsFound,
    PauseGuest,
    RebootGuest,
    RebuildGuest,
    RemoveGuest,
    ResumeGuest,
    SpawnGuest,
    StartGuest,
    StopGuest,
    SuspendGuest,
    UnpauseGuest,
)
from kilonova.messaging.messages.images import CacheImages
from kilonova.messaging.messages.live_migrations import (
    AbortLiveMigration,
    ActivateMigrated,
    ForceCompleteLiveMigration,
    LiveMigrate,
    MigrationProgress,
    PrepareLiveMigration,
)
from kilonova.messaging.messages.power_states import AskPowerStates, PowerStates, PowerStatesAnswer
from kilonova.messaging.messages.questions import (
    AskCachedImages,
    AskConsoleAddress,
    AskConsoleOutput,
    AskDiagnostics,
    CachedImages,
    ConsoleAddress,
    ConsoleOutput,
    Diagnostics,
    QuestionRefused,
    RefusedBecause,
)
from kilonova.messaging.messages.rescues import (
    RescueGuest,
    SetAdminPassword,
    TriggerCrashDump,
    UnrescueGuest,
)
from kilonova.messaging.messages.sessions import (
    Heartbeat,
    HeartbeatAnswer,
    HostsRegistered,
    HostsStarted,
)
from kilonova.messaging.messages.snapshots import (
    CancelSnapshot,
    DiscardSnapshot,
    SnapshotGuest,
    UploadSnapshot,
)
from kilonova.messaging.messages.steps import (
    AskStep,
    CallOff,
    FaultOf,
    StepId,
    StepReply,
    StepState,
    StepStatus,
    TaskReached,
)

__all__ = [
    "AbandonMove",
    "AbortLiveMigration",
    "ActivateMigrated",
    "AgentMessage",
    "Answer",
    "AskCachedImages",
    "AskConsoleAddress",
    "AskConsoleOutput",
    "AskDiagnostics",
    "AskGuests",
    "AskPowerStates",
    "AskStep",
    "CacheImages",
    "CachedImages",
    "CallOff",
    "CancelSnapshot",
    "ConductorMessage",
    "ConfirmMove",
    "ConsoleAddress",
    "ConsoleOutput",
    "DestroyGuest",
    "Diagnostics",
    "DiscardSnapshot",
    "FaultOf",
    "FinishMove",
    "ForceCompleteLiveMigration",
    "GuestAnswer",
    "GuestQuestion",
    "GuestReport",
    "GuestsFound",
    "Heartbeat",
    "HeartbeatAnswer",
    "HostsRegistered",
    "HostsStarted",
    "Interrupt",
    "LiveMigrate",
    "MigrationProgress",
    "MoveAway",
    "Order",
    "PauseGuest",
    "PendingRollback",
    "PowerStates",
    "PowerStatesAnswer",
    "PrepareLiveMigration",
    "Question",
    "QuestionRefused",
    "RebootGuest",
    "RebuildGuest",
    "RefusedBecause",
    "RemoveGuest",
    "RescueGuest",
    "ResumeGuest",
    "ReturnHome",
    "SetAdminPassword",
    "SnapshotGuest",
    "SpawnGuest",
    "StartGuest",
    "StepId",
    "StepReply",
    "StepState",
    "StepStatus",
    "StopGuest",
    "SuspendGuest",
    "TaskReached",
    "TriggerCrashDump",
    "UnpauseGuest",
    "UnrescueGuest",
    "UploadSnapshot",
]

#: Overtake the queue of their instance and are handled at once, even while something long runs for it.
Interrupt = AbortLiveMigration | ForceCompleteLiveMigration | CancelSnapshot | AskStep
#: Carried out one after the other for each instance, and answered with a :class:`StepReply`.
Order = (
    SpawnGuest
    | RebuildGuest
    | DestroyGuest
    | RebootGuest
    | StartGuest
    | StopGuest
    | PauseGuest
    | UnpauseGuest
    | SuspendGuest
    | ResumeGuest
    | RescueGuest
    | UnrescueGuest
    | SetAdminPassword
    | TriggerCrashDump
    | MoveAway
    | FinishMove
    | ReturnHome
    | ConfirmMove
    | AbandonMove
    | PrepareLiveMigration
    | LiveMigrate
    | ActivateMigrated
    | RemoveGuest
    | SnapshotGuest
    | UploadSnapshot
    | DiscardSnapshot
    | CacheImages
    | CallOff
)
#: Wait for a hypervisor, behind no order, and are answered with a :data:`GuestAnswer` that somebody waits for.
GuestQuestion = AskConsoleOutput | AskConsoleAddress | AskDiagnostics | AskCachedImages
GuestAnswer = ConsoleOutput | ConsoleAddress | Diagnostics | CachedImages | QuestionRefused
AgentMessage = Order | Interrupt | AskGuests | AskPowerStates | GuestQuestion
#: Reports of guests, and answers that no process in particular awaits.
GuestReport = GuestsFound | PowerStates | PowerStatesAnswer
ConductorMessage = StepReply | StepStatus | TaskReached | MigrationProgress | GuestReport | GuestAnswer
#: What a process with agents asks, and waits for the :data:`Answer` of.
Question = HostsStarted | Heartbeat
Answer = HostsRegistered | HeartbeatAnswer
