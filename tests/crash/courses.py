# SPDX-License-Identifier: Apache-2.0
"""Which ways the registered workflows take, and where on them they are killed."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from crash.points import Moment, Point, Watch, sending
from crash.starters import STARTERS, Starter
from kilonova.conductor.workflow_engine.workflow import NOTHING, Interrupt
from kilonova.conductor.workflows.registry import REGISTRY
from kilonova.model.transitions import TRANSITIONS


@dataclass(frozen=True)
class Course:
    """One way that a workflow takes: undisturbed, with a step that always fails, or interrupted during a step.

    ``loses``: the host that goes away when it is interrupted, and comes back when nothing is under way any more.
    """

    kind: str
    starter: str
    breaks: str = ""
    refused: bool = False
    interrupted: str = ""
    why: Interrupt | None = None
    loses: str = ""

    def __str__(self) -> str:
        what = f"{self.kind} {self.starter}".strip()
        if self.breaks:
            return f"{what}, {self.breaks} {'is refused' if self.refused else 'fails'}"
        away = f", while {self.loses} is away" if self.loses else ""
        return what if self.why is None else f"{what}, {self.why.value} during {self.interrupted}{away}"

    @property
    def starts(self) -> Starter:
        return STARTERS[self.kind][self.starter]

    @property
    def undisturbed(self) -> "Course":
        return Course(self.kind, self.starter)

    def watch(self, kill_at: Point | None = None) -> Watch:
        breaks = (self.kind, self.breaks) if self.breaks else None
        during = (self.kind, self.interrupted) if self.interrupted else None
        return Watch(kill_at, breaks=breaks, refused=self.refused, interrupt_at=during)


@dataclass(frozen=True)
class Seen:
    """What an undisturbed run of a course passes, and the worlds before and after it."""

    points: tuple[Point, ...]
    before: Any
    after: Any


@dataclass(frozen=True)
class Case:
    """A course that is killed; and, if ``again``, the process after it, too."""

    course: Course
    kill_at: Point
    again: Point | None = None

    def __str__(self) -> str:
        return f"[{self.course}] killed {self.kill_at}" + (f", then {self.again}" if self.again else "")


def courses() -> Iterator[Course]:
    """Yield every course of every workflow. Raises: KeyError for one that nobody knows how to begin."""
    for kind, workflow in REGISTRY.items():
        for starter in STARTERS[kind]:
            yield Course(kind, starter)
        first = next(iter(STARTERS[kind]))
        for step in workflow.steps:
            from_where = _REACHED_FROM.get((kind, step.name), first)
            if workflow.can_walk_back(step.name) and (kind, step.name) != _MAKES_ANEW:
                yield Course(kind, from_where, breaks=step.name, refused=True)
                if kind not in _DESTROYING:  # a guest that is gone cannot come back
                    yield Course(kind, from_where, breaks=step.name)
            if kind in _NOT_INTERRUPTED:
                continue
            left = {Interrupt.EVACUATE} if kind in _LEFT else set()
            for why in sorted({Interrupt.DELETE, *left, *workflow.overtaken_by, *step.interrupts}):
                if why is Interrupt.OTHER_ACTION and not _HARD_REBOOT.tasks.issuperset(workflow.transition.shown):
                    continue
                yield Course(kind, from_where, interrupted=step.name, why=why)
            for starter, loses in _LEFT_FROM.get(kind, ()):
                yield Course(kind, starter, interrupted=step.name, why=Interrupt.EVACUATE, loses=loses)


#: Ended by an evacuation in the matrix, for all that are: what waits for hosts, what moves.
_LEFT = {"reboot", "rebuild", "resize", "live-migrate"}
#: Ended by an evacuation from these beginnings, too: a resize in a cloud of one host, where no other will do, and which
#: was only declared down, or is away.
_LEFT_FROM = {"resize": (("same host", ""), ("same host", "node1"))}
_HARD_REBOOT = TRANSITIONS["hard-reboot"]
#: Steps to which the first beginning does not lead: the second one of a reboot, for a guest that is off or gone.
_REACHED_FROM = {("reboot", "act-hard"): "off", ("hard-reboot", "act-hard"): "gone"}
#: Where this fails, the server is without a guest as it was before.
_MAKES_ANEW = ("hard-reboot", "act-hard")
_DESTROYING = {"delete", "shelve-offload"}
#: A batch has no server of its own, and a server that is being deleted is not deleted again.
_NOT_INTERRUPTED = {"batch", "cache-images", "delete"}


def cases_of(seen: Mapping[Course, Seen]) -> list[Case]:
    """Return where each course is killed: wherever no simpler course has passed."""
    cases = []
    for course, whole in seen.items():
        known = set() if course == course.undisturbed else set(seen[course.undisturbed].points)
        points = [point for point in dict.fromkeys(whole.points) if point not in known and point.nth < _MOST_OFTEN]
        if course.starts.outside is not None:  # before the request is stored, nobody will put the world in order
            points = [point for point in points if point != whole.points[0]]
        cases += [Case(course, point) for point in points]
    return cases


#: How often one point is taken at most.
_MOST_OFTEN = 12


def uncovered(points: Sequence[Point], only: str | None = None) -> list[str]:
    """Return the steps that no course does at some moment, or never undoes although that is possible.

    ``only``: of this workflow alone.
    """
    passed: dict[tuple[str, str, bool], set[str]] = defaultdict(set)
    for point in points:
        passed[point.kind, point.step, point.undoing].add(point.moment)
    missing = []
    for kind, workflow in REGISTRY.items():
        for step in workflow.steps if only in {None, kind} else ():
            moments = {Moment.BEFORE_COMMIT, Moment.AFTER_COMMIT}
            if sending(kind, step.name):
                moments |= {Moment.AFTER_MESSAGE, Moment.WORK_DONE, Moment.AFTER_REPLY}
            missing += [f"{kind}: {step.name}, {moment}" for moment in sorted(moments - passed[kind, step.name, False])]
            may_undo = workflow.can_walk_back(step.name) and step.undo is not NOTHING
            if may_undo and not passed[kind, step.name, True]:
                missing.append(f"{kind}: undo {step.name}")
    return missing
