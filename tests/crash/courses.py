# SPDX-License-Identifier: Apache-2.0
"""Courses (variants of execution) of all registered workflows, and the points at which they are killed."""

from collections import defaultdict
from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from crash.points import Moment, Point, Watch, sending
from crash.starters import STARTERS, Starter
from kilonova.conductor.workflow_engine.run import DELETES, Interrupt
from kilonova.conductor.workflow_engine.workflow import NOTHING
from kilonova.conductor.workflows.registry import REGISTRY
from kilonova.model.transitions import TRANSITIONS
from support.fake_neutron import Fault


@dataclass(frozen=True)
class Course:
    """Execution variant of a workflow: undisturbed, with a step that always fails, or interrupted during a step.

    ``loses``: the host that becomes unreachable at the interrupt, and returns when no workflow is left.
    ``faulty``: the step whose first call to the network service has the fault ``fault``; ``in_undo``: of its undo.
    """

    kind: str
    starter: str
    breaks: str = ""
    refused: bool = False
    interrupted: str = ""
    why: Interrupt | None = None
    loses: str = ""
    faulty: str = ""
    fault: Fault | None = None
    in_undo: bool = False

    def __str__(self) -> str:
        what = f"{self.kind} {self.starter}".strip()
        if self.fault is not None:
            what += f", {self.fault.value} during {'the undo of ' if self.in_undo else ''}{self.faulty}"
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

    def watch(self, kill_at: Point | None = None, stop_at: Container[Point] = ()) -> Watch:
        breaks = (self.kind, self.breaks) if self.breaks else None
        during = (self.kind, self.interrupted) if self.interrupted else None
        fault = None if self.fault is None else (self.kind, self.faulty, self.in_undo, self.fault)
        return Watch(kill_at, breaks=breaks, refused=self.refused, interrupt_at=during, fault=fault, stop_at=stop_at)


@dataclass(frozen=True)
class Seen:
    """Record of a course without a kill: the points passed, and the states before and after it.

    ``stopped_at``: points at which it stopped, in the order in which its folder was copied.
    """

    points: tuple[Point, ...]
    before: Any
    after: Any
    stopped_at: tuple[Point, ...] = ()


@dataclass(frozen=True)
class Case:
    """Course with a kill; with ``again``, the process that resumes it is killed too."""

    course: Course
    kill_at: Point
    again: Point | None = None

    def __str__(self) -> str:
        return f"[{self.course}] killed {self.kill_at}" + (f", then {self.again}" if self.again else "")


def courses() -> Iterator[Course]:
    """Yield every course of every workflow. Raises: KeyError for a workflow without a starter."""
    for kind in REGISTRY:
        for starter in STARTERS[kind]:
            yield Course(kind, starter)
        yield from _disturbed(kind, next(iter(STARTERS[kind])))
        for starter in ("networks", "of user, off", "of user", "guaranteed", "direct"):
            if starter in STARTERS[kind]:
                yield from _disturbed(kind, starter)
        with_networks = [starter for starter, facts in STARTERS[kind].items() if facts.networks]
        for starter in with_networks[:1]:
            yield from _faulty(kind, starter)


def _disturbed(kind: str, first: str) -> Iterator[Course]:
    """Yield the courses in which a step fails or is interrupted. ``first``: the usual starter."""
    workflow, has_networks = REGISTRY[kind], STARTERS[kind][first].networks
    for step in workflow.steps:
        if step.name in _OF_NETWORKS and not has_networks:
            continue
        if has_networks and _REACHED_FROM.get((kind, step.name), first) != first:
            continue
        from_where = first if has_networks else _REACHED_FROM.get((kind, step.name), first)
        if workflow.can_walk_back(step.name) and (kind, step.name) != _MAKES_ANEW:
            yield Course(kind, from_where, breaks=step.name, refused=True)
            if kind not in _DESTROYING:  # a destroyed guest cannot be restored by a rollback
                yield Course(kind, from_where, breaks=step.name)
        if kind in _NOT_INTERRUPTED:
            continue
        left = {Interrupt.EVACUATE} if kind in _LEFT else set()
        for why in sorted({*DELETES, *left, *workflow.overtaken_by, *step.interrupts}):
            if why is Interrupt.SOFT_DELETE and (kind in _NOT_SOFT_DELETED or (kind, step.name) == _MAKES_ANEW):
                continue
            if why is Interrupt.OTHER_ACTION and not _HARD_REBOOT.tasks.issuperset(workflow.transition.shown):
                continue
            yield Course(kind, from_where, interrupted=step.name, why=why)
        for starter, loses in _LEFT_FROM.get(kind, ()) if not has_networks else ():
            yield Course(kind, starter, interrupted=step.name, why=Interrupt.EVACUATE, loses=loses)


def _faulty(kind: str, starter: str) -> Iterator[Course]:
    """Yield the courses in which a call to the network service has a fault: of a step, or of its undo."""
    steps = REGISTRY[kind].steps
    for step, following in zip(steps, (*steps[1:], None), strict=True):
        if step.name not in _CALLING:
            continue
        for fault in Fault:
            yield Course(kind, starter, faulty=step.name, fault=fault)
            if step.undo is not NOTHING and following is not None:
                yield Course(kind, starter, following.name, refused=True, faulty=step.name, fault=fault, in_undo=True)


#: Steps that only servers with networks have.
_OF_NETWORKS = {"ports", "bindings", "plugged", "resume"}
#: Steps that a resuming process passes over if the ports are plugged by then, so that their failure has no certain end.
_PASSED_OVER = {"plugged", "resume"}
#: Steps that call the network service.
_CALLING = {"port", "ports", "bindings"}


#: Workflows that the matrix interrupts by an evacuation: each waits for a host or moves a server.
_LEFT = {"reboot", "rebuild", "resize", "live-migrate"}
#: Additional starters with an evacuation: a resize on a cloud with one host, which is either only declared down or
#: unreachable.
_LEFT_FROM = {"resize": (("same host", ""), ("same host", "node1"))}
_HARD_REBOOT = TRANSITIONS["hard-reboot"]
#: Steps that the first starter does not reach: the second step of a reboot, which needs a guest that is off or gone;
#: the claim of an attach, which needs a port that requests resources.
_REACHED_FROM = {
    ("reboot", "act-hard"): "off",
    ("hard-reboot", "act-hard"): "gone",
    ("attach-interface", "claim"): "guaranteed",
}
#: A failure of this step leaves the server without a guest, so no rollback restores it, and no soft delete stops it.
_MAKES_ANEW = ("hard-reboot", "act-hard")
_DESTROYING = {"delete", "shelve-offload"}
#: Workflows without an interrupt: batches have no server of their own, and a delete is not deleted again.
_NOT_INTERRUPTED = {"batch", "cache-images", "delete"}
#: Workflows without a soft delete: a server that never ran is deleted at once; a second soft delete has no effect.
_NOT_SOFT_DELETED = {"build", "soft-delete"}


@dataclass(frozen=True)
class KillPoints:
    """Points of a course that are killed. ``known``: points of its undisturbed course, where that one is killed."""

    course: Course
    known: frozenset[Point] = frozenset()

    def __contains__(self, point: Point) -> bool:
        return point not in self.known and point.nth < _MOST_OFTEN and self.course.breaks not in _PASSED_OVER

    def of(self, points: Sequence[Point]) -> list[Point]:
        """Return those of the points that a run has passed."""
        # a kill before the request is stored leaves nothing that repairs the state
        killed = points[1:] if self.course.starts.outside is not None else points
        return [point for point in killed if point in self]


#: Maximum number of occurrences of one point that are killed.
_MOST_OFTEN = 12


def uncovered(points: Sequence[Point], only: str | None = None) -> list[str]:
    """Return the steps that no course kills at one of their moments, or whose undo step no course runs.

    ``only``: checks this workflow only.
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
