# SPDX-License-Identifier: Apache-2.0
"""Generator of docs/states.md and docs/states.svg from the table of transitions."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from html import escape

from kilonova.model.instance import TaskState, VmState, status_of
from kilonova.model.needed_abilities import NEEDED
from kilonova.model.transitions import ANY_STATE, ANY_TASK, TRANSITIONS, Transition

_HEAD = """# States of a server

Printed by `kilonova docs states`; `kilonova docs states --format svg` draws the [picture](states.svg).

A server has a settled state (`vm_state`), at most one running operation (`task_state`), and the hypervisor's view
(`power_state`). An action is refused with 409 in any other state or task than those listed. "As before" means the state
in which the action started. Every failure leaves a fault on the server and no task. "Needs" names the
[ability](server-operations.md#what-hosts-can-do) that the server's host must have.

| action | from | while | shows | then | when it fails | |
|---|---|---|---|---|---|---|
"""
_STATUS_HEAD = """
## What clients see

The `status` that the API shows for each settled state, and for the tasks that change it.

| vm_state | status | while |
|---|---|---|
"""
_TASKS: tuple[TaskState | None, ...] = (None, *TaskState)
#: Up to this number, a row lists the tasks in which an action is refused, else those in which it can start.
_MOST_EXCLUDED = 3


def markdown() -> str:
    """Return the Markdown page with all actions and the status of each state."""
    rows = [_row(kind, transition) for kind, transition in TRANSITIONS.items()]
    return _HEAD + "\n".join(rows) + "\n" + _STATUS_HEAD + "\n".join(_status_rows()) + "\n"


def _row(kind: str, transition: Transition) -> str:
    cells = (
        f"`{kind}`",
        "any" if transition.states == ANY_STATE else _words(transition.states, VmState),
        _while(transition.tasks),
        " → ".join(transition.shown) or "nothing",
        _settled(transition),
        transition.failed or "as before",
        " ".join(_remarks(kind, transition)),
    )
    return f"| {' | '.join(cells)} |"


def _settled(transition: Transition) -> str:
    if transition.settled is None:
        return "as before"
    return " or ".join(filter(None, (transition.settled, transition.settled_otherwise)))


def _while(tasks: AbstractSet[TaskState | None]) -> str:
    missing = ANY_TASK - tasks
    if not missing:
        return "anything"
    return f"anything but {_words(missing, _TASKS)}" if len(missing) <= _MOST_EXCLUDED else _words(tasks, _TASKS)


def _remarks(kind: str, transition: Transition) -> Iterator[str]:
    if needed := NEEDED.get(kind):
        yield f"Needs {' or '.join(sorted(needed))}."
    if transition.remark:
        yield transition.remark
    if not transition.unlocked:
        yield "Not stopped by a lock."


def _words(chosen: Iterable[object], order: Iterable[object]) -> str:
    kept = set(chosen)
    return ", ".join("nothing" if each is None else str(each) for each in order if each in kept)


def _status_rows() -> Iterator[str]:
    for vm_state in VmState:
        plain = status_of(vm_state, None)
        special: dict[str, list[str]] = defaultdict(list)
        for task in TaskState:
            if (status := status_of(vm_state, task)) != plain:
                special[status].append(task)
        shown = "; ".join(f"{status}: {', '.join(tasks)}" for status, tasks in special.items())
        yield f"| {vm_state} | {plain} | {shown} |"


# --- SVG picture ------------------------------------------------------------------------------------------------------

_WIDTH, _HEIGHT = 1180, 800
_BOX_WIDTH, _BOX_HEIGHT = 150, 40
#: Centre of each state's box, in pixels.
_CENTRES: Mapping[VmState, tuple[int, int]] = {
    VmState.BUILDING: (100, 330),
    VmState.ACTIVE: (540, 400),
    VmState.STOPPED: (1040, 400),
    VmState.PAUSED: (270, 110),
    VmState.SUSPENDED: (500, 60),
    VmState.RESCUED: (790, 60),
    VmState.ERROR: (1040, 120),
    VmState.RESIZED: (1040, 690),
    VmState.SHELVED: (110, 690),
    VmState.SHELVED_OFFLOADED: (400, 740),
    VmState.SOFT_DELETED: (640, 740),
    VmState.DELETED: (840, 740),
}
_ASIDE = 12  # pixels between the two arrows of opposite directions
_LABEL_AT = 0.37  # share of an arrow's length: labels of opposite arrows do not overlap


def svg() -> str:
    """Return the SVG picture: one arrow for all actions between two states; actions from every state are a footnote."""
    arrows: dict[tuple[VmState, VmState], list[str]] = defaultdict(list)
    for kind, transition in TRANSITIONS.items():
        if transition.settled is None or transition.states == ANY_STATE:
            continue
        for state in transition.states:
            if state is not transition.settled:
                arrows[state, transition.settled].append(kind)
    lines = [_arrow(*ends, kinds) for ends, kinds in sorted(arrows.items())]
    boxes = [_box(state) for state in VmState]
    anywhere = [kind for kind, transition in TRANSITIONS.items() if transition.states == ANY_STATE]
    foot = f"From every state: {', '.join(anywhere)}. Failures and actions that keep the state are in the table."
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" '
        'font-family="sans-serif" font-size="13">\n'
        "<title>States of a server and the actions between them</title>\n"
        f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="white"/>\n'
        '<defs><marker id="tip" markerWidth="9" markerHeight="8" refX="8" refY="4" orient="auto">'
        '<path d="M0,0 L9,4 L0,8 z" fill="#4a5568"/></marker></defs>\n'
        + "\n".join((*lines, *boxes))
        + f'\n<text x="20" y="{_HEIGHT - 12}" fill="#4a5568">{escape(foot)}</text>\n</svg>\n'
    )


def _box(state: VmState) -> str:
    x, y = _CENTRES[state]
    return (
        f'<rect x="{x - _BOX_WIDTH // 2}" y="{y - _BOX_HEIGHT // 2}" width="{_BOX_WIDTH}" height="{_BOX_HEIGHT}" rx="6"'
        f' fill="#edf2f7" stroke="#2d3748"/><text x="{x}" y="{y + 5}" text-anchor="middle">{escape(state)}</text>'
    )


def _arrow(start: VmState, end: VmState, kinds: list[str]) -> str:
    (x1, y1), (x2, y2) = _CENTRES[start], _CENTRES[end]
    length = ((x2 - x1) ** 2 + (y2 - y1) ** 2) ** 0.5
    along, across = (x2 - x1) / length, (y2 - y1) / length
    x1, x2 = x1 - across * _ASIDE, x2 - across * _ASIDE
    y1, y2 = y1 + along * _ASIDE, y2 + along * _ASIDE
    first, last = _border(along, across), length - _border(along, across)
    text_x, text_y = x1 + along * length * _LABEL_AT, y1 + across * length * _LABEL_AT
    label = "".join(
        f'<tspan x="{text_x:.0f}" dy="{14 if index else -6 * (len(kinds) - 1)}">{escape(kind)}</tspan>'
        for index, kind in enumerate(kinds)
    )
    return (
        f'<line x1="{x1 + along * first:.0f}" y1="{y1 + across * first:.0f}" x2="{x1 + along * last:.0f}"'
        f' y2="{y1 + across * last:.0f}" stroke="#4a5568" marker-end="url(#tip)"/>'
        f'<text y="{text_y:.0f}" text-anchor="middle" stroke="white" stroke-width="5" paint-order="stroke"'
        f' fill="#1a202c">{label}</text>'
    )


def _border(along: float, across: float) -> float:
    """Return the distance in pixels from a box's centre to its border in a direction."""
    sides = [size / 2 / abs(part) for size, part in ((_BOX_WIDTH, along), (_BOX_HEIGHT, across)) if abs(part) > 1e-9]
    return min(sides) + 2
