# SPDX-License-Identifier: Apache-2.0
"""Which states servers are in while a workflow runs, noted by a trigger of the database, so that none is missed."""

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
    """The states of the servers of one kind of workflow, over several runs."""

    vm_states: set[VmState] = field(default_factory=set)
    tasks: set[TaskState] = field(default_factory=set)

    def add(self, other: "ObservedStates") -> None:
        self.vm_states |= other.vm_states
        self.tasks |= other.tasks


def watch(folder: Path) -> None:
    """Have the database of a folder note every state that a server comes into."""
    connection = sqlite3.connect(folder / "kilonova.db")
    try:
        connection.executescript(_TRIGGER)
    finally:
        connection.close()


def observed(folder: Path) -> ObservedStates:
    """Return what the database of a folder has noted."""
    connection = sqlite3.connect(folder / "kilonova.db")
    try:
        rows = connection.execute("SELECT DISTINCT vm_state, task_state FROM observed_states").fetchall()
    finally:
        connection.close()
    tasks = {TaskState(task) for _, task in rows if task is not None}
    return ObservedStates({VmState(state) for state, _ in rows}, tasks)


def differences(transition: Transition, seen: ObservedStates) -> list[str]:
    """Return what was observed and is not in a row of the table, and what is in the row and was not observed.

    Failures are not asked for: an interrupt or an operator brings some of them, and no course of the matrix.
    """
    ends = {state for state in (transition.settled, transition.settled_otherwise) if state is not None}
    failed = set() if transition.failed is None else {transition.failed}
    wrong = [f"{state.value} is not in the row" for state in sorted(seen.vm_states - transition.states - ends - failed)]
    wrong += [f"{task.value} is not shown by the row" for task in sorted(seen.tasks - set(transition.shown))]
    wrong += [f"{task.value} was never shown" for task in sorted(set(transition.shown) - seen.tasks - _AT_WORK)]
    wrong += [f"{end.value} was never reached" for end in sorted(ends - seen.vm_states)]
    return wrong


#: Shown as soon as an agent says so, if it is at work then: quick ones are over before.
_AT_WORK = frozenset(
    {
        TaskState.REBOOT_PENDING,
        TaskState.REBOOT_STARTED,
        TaskState.REBOOT_PENDING_HARD,
        TaskState.REBOOT_STARTED_HARD,
    }
)
