# SPDX-License-Identifier: Apache-2.0
"""States of servers while a workflow runs, recorded completely by a database trigger."""

import sqlite3
from dataclasses import dataclass, field
from pathlib import Path

from kilonova.model.instance import TaskState, VmState
from kilonova.model.transitions import Transition

_TRIGGER = """
CREATE TABLE observed_states (vm_state TEXT, task_state TEXT);
CREATE TRIGGER observe_states AFTER UPDATE OF vm_state, task_state ON instances
BEGIN INSERT INTO observed_states VALUES (NEW.vm_state, NEW.task_state); END;
CREATE TRIGGER observe_first_states AFTER INSERT ON instances
BEGIN INSERT INTO observed_states VALUES (NEW.vm_state, NEW.task_state); END;
"""


@dataclass
class ObservedStates:
    """Observed states of the servers of one workflow kind, over several runs."""

    vm_states: set[VmState] = field(default_factory=set)
    tasks: set[TaskState] = field(default_factory=set)

    def add(self, other: "ObservedStates") -> None:
        self.vm_states |= other.vm_states
        self.tasks |= other.tasks


def watch(folder: Path) -> None:
    """Install a trigger in the folder's database that records every state of a server."""
    connection = sqlite3.connect(folder / "kilonova.db")
    try:
        connection.executescript(_TRIGGER)
    finally:
        connection.close()


def observed(folder: Path) -> ObservedStates:
    """Return the states recorded in the folder's database."""
    connection = sqlite3.connect(folder / "kilonova.db")
    try:
        rows = connection.execute("SELECT DISTINCT vm_state, task_state FROM observed_states").fetchall()
    finally:
        connection.close()
    tasks = {TaskState(task) for _, task in rows if task is not None}
    return ObservedStates({VmState(state) for state, _ in rows}, tasks)


def differences(transition: Transition, seen: ObservedStates) -> list[str]:
    """Return the differences between the observed states and a row of the transition table, in both directions.

    Failure states need not be observed: some come only from interrupts or operators, which no course contains.
    """
    ends = {state for state in (transition.settled, transition.settled_otherwise) if state is not None}
    failed = set() if transition.failed is None else {transition.failed}
    wrong = [f"{state.value} is not in the row" for state in sorted(seen.vm_states - transition.states - ends - failed)]
    wrong += [f"{task.value} is not shown by the row" for task in sorted(seen.tasks - set(transition.shown))]
    wrong += [f"{task.value} was never shown" for task in sorted(set(transition.shown) - seen.tasks - _AT_WORK)]
    wrong += [f"{end.value} was never reached" for end in sorted(ends - seen.vm_states)]
    return wrong


#: Task states that an agent reports during its work; short operations may end before the report.
_AT_WORK = frozenset(
    {
        TaskState.REBOOT_PENDING,
        TaskState.REBOOT_STARTED,
        TaskState.REBOOT_PENDING_HARD,
        TaskState.REBOOT_STARTED_HARD,
    }
)
