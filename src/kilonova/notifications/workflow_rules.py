# SPDX-License-Identifier: Apache-2.0
"""Table of the server notifications that each workflow publishes.

A notification with phase ``start`` is published before the order is sent to the host; one with phase ``end`` after the
commit of the result.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping
from enum import Enum, auto
from typing import Any

from kilonova.conductor.workflow_engine.events import Phase as WorkflowPhase
from kilonova.conductor.workflow_engine.events import WorkflowEvent
from kilonova.notifications.message import Phase
from kilonova.records import dataclass


class PublishedBy(Enum):
    """Service that a notification names as its publisher.

    ``HOST``: nova-compute on the host that executes the step. ``SOURCE``: nova-compute on the source host of a move.
    ``API``, ``CONDUCTOR``: nova-api or nova-conductor on the host of this process.
    """

    HOST = auto()
    SOURCE = auto()
    API = auto()
    CONDUCTOR = auto()


def _always(_facts: Any) -> bool:
    return True


@dataclass(frozen=True, slots=True)
class Rule:
    """One notification of a workflow and the condition under which it is published.

    ``outcome``: phase of the workflow event that publishes the notification. ``step``: step of that event, "" for any.
    ``undoing``: whether the rule is for the undo of the step. ``failed_at``: the rule applies only if the workflow
    failed at one of these steps; empty for no such condition. ``only``: condition on the workflow's facts.
    """

    outcome: WorkflowPhase
    step: str
    action: str
    phase: Phase | None
    published_by: PublishedBy = PublishedBy.HOST
    undoing: bool = False
    failed_at: frozenset[str] = frozenset()
    only: Callable[[Any], bool] = _always

    def holds(self, event: WorkflowEvent) -> bool:
        """Tell whether the rule applies to an event. The caller has checked the kind of the workflow and the phase."""
        if self.step and self.step != event.step:
            return False
        if self.outcome is WorkflowPhase.STEP_DONE and self.undoing != event.undoing:
            return False
        if self.failed_at and (event.failure is None or event.failure.step not in self.failed_at):
            return False
        return self.only(event.facts)


def _begins(step: str, action: str, phase: Phase | None = Phase.START, **more: Any) -> Rule:
    return Rule(WorkflowPhase.STEP_BEGINS, step, action, phase, **more)


def _done(step: str, action: str, phase: Phase | None = Phase.END, **more: Any) -> Rule:
    return Rule(WorkflowPhase.STEP_DONE, step, action, phase, **more)


def _over(action: str, step: str = "", **more: Any) -> Rule:
    return Rule(WorkflowPhase.DONE, step, action, Phase.END, **more)


def _failed(step: str, action: str, **more: Any) -> Rule:
    return Rule(WorkflowPhase.STEP_FAILED, step, action, Phase.ERROR, **more)


def _whole(step: str, action: str) -> tuple[Rule, ...]:
    """Return the rules for a notification at the start of ``step`` and a notification at the end of the workflow."""
    return _begins(step, action), _over(action)


def _used_until(step: str, outcome: WorkflowPhase = WorkflowPhase.STEP_BEGINS) -> Rule:
    """Return a rule that publishes ``instance.exists`` before a change that affects billing."""
    return Rule(outcome, step, EXISTS, None)


def _leaves_now(facts: Any) -> bool:
    return bool(facts.offload)


def _may_have_a_guest(facts: Any) -> bool:
    return facts.hosts is None or bool(facts.hosts)


def _has_no_networks(facts: Any) -> bool:
    return not facts.networks


def _was_offloaded(facts: Any) -> bool:
    return bool(facts.offloaded)


def _kept_its_host(facts: Any) -> bool:
    return not facts.offloaded


#: Value of ``Rule.action`` for the notification ``instance.exists``, which is not an action.
EXISTS = "exists"
_MOVED = frozenset({"move-away", "switch", "ports", "finish", "plugged", "resume"})
_AWAY_AND_BACK = (
    _used_until("claim", WorkflowPhase.STEP_DONE),
    _done("claim", "resize_prep", Phase.START),
    _done("claim", "resize_prep"),
    _begins("move-away", "resize", published_by=PublishedBy.SOURCE),
    _done("move-away", "resize", published_by=PublishedBy.SOURCE),
    _begins("finish", "resize_finish"),
    _over("resize_finish"),
    *(_failed(step, "resize") for step in sorted(_MOVED)),
)
_COPIED = frozenset({"bindings", "prepare", "copy"})
_SNAPSHOT = _begins("snapshot", "snapshot"), _over("snapshot")

#: Kinds of workflow without server notifications, as in Nova.
SILENT = frozenset({"batch", "cache-images", "change-password"})
#: Kind of workflow → its rules, in order of publication.
RULES: Mapping[str, tuple[Rule, ...]] = {
    "build": (
        _begins("ports", "create"),
        _begins("spawn", "create", only=_has_no_networks),
        *(_failed(step, "create") for step in ("ports", "spawn", "plugged", "resume")),
        _over("create"),
    ),
    "delete": (
        _begins("destroy", "delete"),
        _begins("destroy", "shutdown", only=_may_have_a_guest),
        _over("shutdown", only=_may_have_a_guest),
        _over("delete"),
    ),
    "soft-delete": _whole("confirm", "soft_delete"),
    "restore": _whole("power-on", "restore"),
    "start": _whole("act", "power_on"),
    "stop": _whole("act", "power_off"),
    "force-stop": _whole("act", "power_off"),
    "reboot": (*_whole("act", "reboot"), Rule(WorkflowPhase.FAILED, "", "reboot", Phase.ERROR)),
    "hard-reboot": (*_whole("act", "reboot"), Rule(WorkflowPhase.FAILED, "", "reboot", Phase.ERROR)),
    "pause": _whole("act", "pause"),
    "unpause": _whole("act", "unpause"),
    "suspend": _whole("act", "suspend"),
    "resume": _whole("act", "resume"),
    "rescue": (_begins("act", "rescue"), _used_until("", WorkflowPhase.DONE), _over("rescue")),
    "unrescue": _whole("act", "unrescue"),
    "rebuild": (
        _done("check", "rebuild_scheduled", None, published_by=PublishedBy.CONDUCTOR),
        _used_until("rebuild"),
        *_whole("rebuild", "rebuild"),
        Rule(WorkflowPhase.FAILED, "", "rebuild", Phase.ERROR),
    ),
    "evacuate": (
        _begins("begin", "evacuate", None, published_by=PublishedBy.API),
        _done("claim", "rebuild_scheduled", None, published_by=PublishedBy.CONDUCTOR),
        _begins("spawn", "rebuild"),
        _failed("spawn", "rebuild"),
        _over("rebuild"),
    ),
    "resize": _AWAY_AND_BACK,
    "migrate": _AWAY_AND_BACK,
    "confirm-resize": (
        _begins("drop-source", "resize_confirm", published_by=PublishedBy.SOURCE),
        _over("resize_confirm", published_by=PublishedBy.SOURCE),
    ),
    "revert-resize": (
        _used_until("abandon"),
        _begins("return-home", "resize_revert", published_by=PublishedBy.SOURCE),
        _over("resize_revert", published_by=PublishedBy.SOURCE),
    ),
    "live-migrate": (
        _begins("prepare", "live_migration_pre"),
        _done("prepare", "live_migration_pre"),
        _begins("activate", "live_migration_post", published_by=PublishedBy.SOURCE),
        _begins("activate", "live_migration_post_dest"),
        _done("switch", "live_migration_post_dest"),
        _over("live_migration_post", published_by=PublishedBy.SOURCE),
        *(
            Rule(WorkflowPhase.STEP_FAILED, step, "live_migration_rollback", Phase.START, PublishedBy.SOURCE)
            for step in sorted(_COPIED)
        ),
        _done("prepare", "live_migration_rollback_dest", Phase.START, undoing=True),
        _done("prepare", "live_migration_rollback_dest", undoing=True),
        *(
            Rule(outcome, "", "live_migration_rollback", Phase.END, PublishedBy.SOURCE, failed_at=_COPIED)
            for outcome in (WorkflowPhase.FAILED, WorkflowPhase.INTERRUPTED, WorkflowPhase.RESTARTED)
        ),
    ),
    "shelve": (
        _used_until("register"),
        _begins("register", "shelve"),
        _over("shelve", "keep"),
        _begins("offload", "shelve", Phase.END),
        _begins("offload", "shelve_offload"),
        _over("shelve_offload", "offload", only=_leaves_now),
    ),
    "shelve-offload": _whole("offload", "shelve_offload"),
    "unshelve": (
        _begins("spawn", "unshelve", only=_was_offloaded),
        _over("unshelve", only=_was_offloaded),
        _begins("spawn", "power_on", only=_kept_its_host),
        _over("power_on", only=_kept_its_host),
    ),
    "create-image": _SNAPSHOT,
    "create-backup": _SNAPSHOT,
    "crash-dump": _whole("act", "trigger_crash_dump"),
    "attach-interface": (
        _begins("port", "interface_attach"),
        Rule(WorkflowPhase.FAILED, "", "interface_attach", Phase.ERROR),
        _over("interface_attach"),
    ),
    "detach-interface": _whole("unplug", "interface_detach"),
}

#: Kind of workflow → task name in Nova's notification ``compute_task.*.error``, published if no valid host is found.
PLACED: Mapping[str, str] = {
    "build": "build_instances",
    "resize": "migrate_server",
    "migrate": "migrate_server",
    "live-migrate": "migrate_server",
    "evacuate": "rebuild_server",
}


def _by_turn() -> Mapping[tuple[str, WorkflowPhase], tuple[Rule, ...]]:
    found: dict[tuple[str, WorkflowPhase], list[Rule]] = defaultdict(list)
    for kind, rules in RULES.items():
        for rule in rules:
            found[kind, rule.outcome].append(rule)
    return {key: tuple(rules) for key, rules in found.items()}


_BY_TURN = _by_turn()


def rules_for(event: WorkflowEvent) -> list[Rule]:
    """Return the rules that apply to an event, in order of publication."""
    return [rule for rule in _BY_TURN.get((event.kind, event.phase), ()) if rule.holds(event)]
