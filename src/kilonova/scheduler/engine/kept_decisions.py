# SPDX-License-Identifier: Apache-2.0
"""Kept decisions: a request of a known shape is decided by judging only the hosts that changed since.

::

    request ──▶ shape ──▶ kept? ── no ──▶ the whole engine
                            └ yes ──▶ rows changed since ──▶ judge them ──▶ the same decision

The decisions are bit-identical to those of the whole engine. A shape is kept from its first request on. All rules judge
the hosts again whose service or aggregates changed. Everything is dropped when the hosts change in yet another way (a
:class:`LiveHosts` with other ``changes``), and when a rule fails.
"""

import logging
from collections.abc import Hashable

import numpy as np

from kilonova.errors import RuleFailed
from kilonova.model.request_spec import RequestSpec
from kilonova.scheduler.decision import Decision
from kilonova.scheduler.depends_on import DependsOn, dependence_of
from kilonova.scheduler.engine.engine import Engine
from kilonova.scheduler.engine.kept_ranking import LISTED
from kilonova.scheduler.engine.kept_ratings import MOST_AT_ENDS, NotKeepable, SharedRatings
from kilonova.scheduler.engine.kept_shape import KeptShape
from kilonova.scheduler.engine.period import Period, touched_by_time
from kilonova.scheduler.engine.request_shape import request_shape
from kilonova.scheduler.engine.touched_hosts import touched_between
from kilonova.scheduler.host_table import HostTable, IntArray
from kilonova.scheduler.live_hosts import LiveHosts
from kilonova.scheduler.plug_in_rules import PlugInRequestFilter
from kilonova.scheduler.reads import Reads, reads_of

LOG = logging.getLogger(__name__)
MOST_BYTES = 128 * 2**20
#: Limit of the number of shapes that are known, whether kept or not.
_MOST_SHAPES = 4096
_PAUSE = 64
_MOST_TOUCHES = 256


class KeptDecisions:
    """The kept decisions of an engine. The caller holds the lock of the live hosts during each call.

    ``most_bytes``: limit of the memory for kept shapes; the shape that was requested least recently is dropped first.
    ``listed``: number of the best hosts to list for each shape.
    ``check``: whether to compare each decision with the whole engine's, and to log and count differences.
    """

    def __init__(
        self, engine: Engine, *, most_bytes: int = MOST_BYTES, listed: int = LISTED, check: bool = False
    ) -> None:
        self._engine = engine
        self._listed = listed
        self._most_bytes = most_bytes
        self._check = check
        is_known = type(engine) is Engine  # a subclass may decide in another way
        self._can_keep = is_known and not engine.shuffle and all(_is_known(rule) for rule in _rules(engine))
        self._named = _hints_with_names(engine) if self._can_keep else []
        self._live: LiveHosts | None = None
        self._shared: SharedRatings | None = None
        self._period: Period | None = None
        #: Shape → what is kept of it, and its size in bytes. The shape that was requested last is the last one.
        #: None: nothing of this shape can be kept.
        self._shapes: dict[Hashable, tuple[KeptShape | None, int]] = {}
        self._bytes = 0
        #: The rows that all rules must judge again, in the order of the changes; each begins a new stage. Nothing is
        #: kept of the time before the first stage.
        self._touches: list[IntArray] = []
        self._first_stage = 0
        #: Number of requests that are decided in full before the ratings are tried again.
        self._pause = 0
        self._projects: dict[str, bool] = {}
        #: Numbers of decisions: made from kept verdicts, and found to differ from the whole engine's.
        self.kept = self.differences = 0

    def decide(
        self,
        live: LiveHosts,
        now: float,
        spec: RequestSpec,
        *,
        limit: int,
        rng: np.random.Generator | None = None,
        shape: Hashable | None = None,
    ) -> Decision:
        """Return the decision that ``Engine.decide`` makes on the live hosts at the time ``now``.

        ``shape``: the result of :func:`request_shape` without a project, if the caller knows it.
        Raises: RuleFailed, if a rule raises an exception or returns an invalid result.
        """
        again = _twin(rng) if self._check and rng is not None else None
        kept = self._kept(live, now, spec, shape or request_shape(spec, ""), limit, rng)
        if kept is None:
            return self._engine.decide(live.at(now), spec, limit=limit, rng=rng)
        self.kept += 1
        if self._check:
            return self._checked(kept, self._engine.decide(live.at(now), spec, limit=limit, rng=again))
        return kept

    def _kept(
        self,
        live: LiveHosts,
        now: float,
        spec: RequestSpec,
        form: Hashable | None,
        limit: int,
        rng: np.random.Generator | None,
    ) -> Decision | None:
        """Return the decision from kept verdicts, or None if it must be made in full. ``form``: the request's shape."""
        if form is None or not self._can_keep:
            return None
        if any(reads.hints.always_has(hint) for hint in spec.hints for reads in self._named):
            return None
        if live is not self._live:
            self._begin(live, spec)
        key = form, self._project(live.hosts, spec)
        if not self._are_rated(live, spec):
            return None
        shape, known = self._forget(key)
        if known and shape is None:
            self._remember(key, None)
            return None
        try:
            shape = self._renewed(shape, live, now, spec)
            decision = shape.decision(live.hosts, limit, rng)
        except NotKeepable:
            self._remember(key, None)
            return None
        except RuleFailed:
            return None  # the whole engine fails as well, unless it does not ask the rule about this host
        self._remember(key, shape)
        return decision

    def _are_rated(self, live: LiveHosts, spec: RequestSpec) -> bool:
        """Bring the shared ratings up to date. Return False if they cannot be kept at present."""
        if self._pause:
            self._pause -= 1
            return False
        changes = live.changes
        try:
            changed = None if self._shared is None else changes.since(self._shared.number)
            if self._shared is None or changed is None:
                self._drop()
                most = min(self._listed, MOST_AT_ENDS)
                self._shared = SharedRatings(self._engine.weighers, live.hosts, spec, changes.number(), most)
            else:
                self._shared.follow(live.hosts, spec, changed, changes.number())
        except (NotKeepable, RuleFailed):
            self._drop()
            self._pause = _PAUSE
            return False
        return True

    def _renewed(self, shape: KeptShape | None, live: LiveHosts, now: float, spec: RequestSpec) -> KeptShape:
        """Return the shape with the present verdicts. Raises: NotKeepable, RuleFailed."""
        period = self._present(live, now)
        stage = self._first_stage + len(self._touches)
        if shape is not None and shape.stage >= self._first_stage:
            touches = self._touches[shape.stage - self._first_stage :]
            touched = np.unique(np.concatenate(touches)) if touches else None
            if shape.follow(period, spec, touched, stage):
                return shape
        assert self._shared is not None
        return KeptShape(self._engine, period, stage, spec, self._shared, self._listed)

    def _present(self, live: LiveHosts, now: float) -> Period:
        """Return the present period, and touch the hosts on which time has changed verdicts. Raises: RuleFailed."""
        period = self._period
        if period is not None and period.includes(now):
            if period.live is live:
                return period
        elif period is not None:
            self._touch(touched_by_time(self._engine, live), live)
        period = self._period = Period.beginning(self._engine, live, now)
        return period

    def _begin(self, live: LiveHosts, spec: RequestSpec) -> None:
        """Touch the hosts that differ from the previous ones; drop everything if too much differs."""
        before = self._live
        self._live, self._projects, self._pause = live, {}, 0
        touched = None if before is None or self._shared is None else touched_between(before, live)
        if touched is None:
            self._drop()
            self._period = None
            return
        assert self._shared is not None
        try:
            self._shared.touch(live.hosts, spec, touched)
        except (NotKeepable, RuleFailed):
            self._drop()
        self._touch(touched, live)

    def _touch(self, touched: IntArray | None, live: LiveHosts) -> None:
        """Let all rules judge some hosts again. Drop all shapes if these are many hosts, or unknown (None)."""
        if touched is None or 2 * len(touched) >= len(live.hosts) or len(self._touches) >= _MOST_TOUCHES:
            self._drop_shapes()
        else:
            self._touches.append(touched if len(touched) else np.zeros(1, dtype=np.int64))

    def _drop(self) -> None:
        """Drop all verdicts and ratings."""
        self._drop_shapes()
        self._shared = None

    def _drop_shapes(self) -> None:
        self._shapes.clear()
        self._bytes = 0
        self._first_stage += len(self._touches) + 1
        self._touches = []

    def _remember(self, key: Hashable, shape: KeptShape | None) -> None:
        size = 0 if shape is None else shape.size
        self._shapes[key] = shape, size
        self._bytes += size
        while len(self._shapes) > 1 and (self._bytes > self._most_bytes or len(self._shapes) > _MOST_SHAPES):
            self._forget(next(iter(self._shapes)))

    def _forget(self, key: Hashable) -> tuple[KeptShape | None, bool]:
        """Forget a shape. Return what was kept of it, and whether it was known."""
        found = self._shapes.pop(key, None)
        if found is None:
            return None, False
        self._bytes -= found[1]
        return found[0], True

    def _project(self, hosts: HostTable, spec: RequestSpec) -> str:
        """Return the project of a request, or "" if no aggregate has metadata with its id.

        Rules distinguish only projects that aggregates name.
        """
        project = spec.project_id
        is_named = self._projects.get(project)
        if is_named is None:
            if len(self._projects) >= _MOST_SHAPES:
                self._projects.clear()
            values = (value for each in hosts.aggregates.aggregates for value in each.metadata.values())
            is_named = self._projects[project] = any(project in value for value in values)
        return project if is_named else ""

    def _checked(self, kept: Decision, whole: Decision) -> Decision:
        """Return the whole engine's decision, and log whether the kept one differs."""
        if found := differences(kept, whole):
            self.differences += 1
            self._drop()
            LOG.error("A kept decision differs from the whole engine's: %s", "; ".join(found))
        return whole


def _twin(rng: np.random.Generator) -> np.random.Generator:
    """Return a generator that gives the same numbers."""
    twin = np.random.Generator(type(rng.bit_generator)())
    twin.bit_generator.state = rng.bit_generator.state
    return twin


def differences(one: Decision, other: Decision) -> list[str]:
    """Return the differences between two decisions, as texts."""
    fields = [(name, getattr(one, name), getattr(other, name)) for name in ("survivors", "steps", "ranked", "forced")]
    found = [f"{name}: {left}, not {right}" for name, left, right in fields if left != right]
    if not np.array_equal(one.removed_by, other.removed_by):
        rows = np.flatnonzero(one.removed_by != other.removed_by).tolist()
        found.append(f"removed_by of {len(rows)} hosts, the first at row {rows[0]}")
    return found


def _rules(engine: Engine) -> tuple[object, ...]:
    plug_ins = [each for each in engine.request_filters if isinstance(each, PlugInRequestFilter)]
    return (*plug_ins, *engine.filters, *engine.weighers)


def _is_known(rule: object) -> bool:
    return dependence_of(rule) is not None


def _hints_with_names(engine: Engine) -> list[Reads]:
    """Return what the rules read whose verdicts depend on instances that hints name."""
    rules = [rule for rule in _rules(engine) if DependsOn.NAMES in (dependence_of(rule) or DependsOn.SHARED)]
    return [reads for rule in rules if (reads := reads_of(rule)) is not None]
