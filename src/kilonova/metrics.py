# SPDX-License-Identifier: Apache-2.0
"""Prometheus metrics of a control process. Results of database queries are cached for ``KEPT_S`` between scrapes."""

import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from functools import cache
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Histogram, ProcessCollector
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from kilonova.conductor.workflow_engine.events import Phase, WorkflowEvent
from kilonova.db.shared_tasks import Finished
from kilonova.db.workflows import Count, state_of
from kilonova.errors import KilonovaError
from kilonova.records import dataclass

#: Lifetime of cached database counts, in seconds.
KEPT_S = 5.0
#: Limit of the number of rules that have a counter of their own; a trait or a resource class makes a rule, too.
MOST_RULES = 200
_STEP_S = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1000.0, 3600.0)
_DECISION_S = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0)
_OUTCOMES: Mapping[Phase, str] = {
    Phase.DONE: "done",
    Phase.FAILED: "failed",
    Phase.INTERRUPTED: "interrupted",
    Phase.STUCK: "stuck",
}
#: Phases that mark the end of a step or of its undo.
_STEP_ENDS = frozenset(Phase) - {Phase.STEP_BEGINS, Phase.BROKE, Phase.AWAITS_HOST, Phase.STUCK}


@dataclass(frozen=True, slots=True)
class Sources:
    """Functions that return the values of gauges at a scrape. All values except the time are counts.

    ``under_way``: the database's current time, and counts of running workflows; raises database errors.
    ``waiting_writes``: queued jobs of the database writer. ``waiting_work``: queue → number of queued tasks.
    ``odd_guests``: kind of stray → number of guests, from the database. ``stray_ports``: kind → number of stray ports
    at their last count, from the database; empty before the first count.
    ``parked``: number of workflows that wait for the reply of an agent. ``capacity_counts``: name → last count of free
    resources (``capacity``, ``stranded resources``, ``n-plus-one``), from the database; absent before the first one.
    """

    under_way: Callable[[], tuple[datetime, Sequence[Count]]]
    waiting_writes: Callable[[], int]
    waiting_work: Callable[[], Mapping[str, int]]
    parked: Callable[[], int]
    odd_guests: Callable[[], Mapping[str, int]]
    stray_ports: Callable[[], Mapping[str, int]]
    capacity_counts: Callable[[], Mapping[str, Finished]] = dict


class Metrics:
    """The metrics of one control process, in a registry of their own. Safe to use from any thread."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry(auto_describe=False)
        ProcessCollector(registry=self._registry)
        self._finished = Counter(
            "kilonova_workflows_finished",
            "Workflows that have ended, or that wait for an operator.",
            ["kind", "outcome"],
            registry=self._registry,
        )
        self._steps = Histogram(
            "kilonova_workflow_step_seconds",
            "Duration of workflow steps, from their start to the commit of their result.",
            ["kind", "step", "direction"],
            buckets=_STEP_S,
            registry=self._registry,
        )
        # Children of metrics are cached, because finding a child by its labels takes longer than incrementing it.
        self._finished_as = cache(self._finished.labels)
        self._step_took = cache(self._steps.labels)
        self._retries = Counter(
            "kilonova_workflow_retries",
            "Retries of workflow steps that failed with an error.",
            ["kind", "step"],
            registry=self._registry,
        )
        self._decisions = Histogram(
            "kilonova_decision_seconds",
            "Time to choose hosts for the servers of a request, including the wait for other decisions.",
            buckets=_DECISION_S,
            registry=self._registry,
        )
        self._decided = Counter(
            "kilonova_servers_decided", "Servers for which a host was chosen or not found.", registry=self._registry
        )
        self._removed = Counter(
            "kilonova_hosts_removed",
            "Hosts that a rule removed, in the first decision of each request.",
            ["rule"],
            registry=self._registry,
        )
        self._rules: set[str] = set()
        self._claims_lost = Counter(
            "kilonova_claims_lost",
            "Claims that lost a race, after which a host was chosen again.",
            registry=self._registry,
        )

        self._plan_moves = Counter(
            "kilonova_plan_moves", "Moves of applied plans that have ended.", ["outcome"], registry=self._registry
        )
        self._notifications = Counter(
            "kilonova_notifications_sent", "Notifications passed to their drivers.", registry=self._registry
        )
        self._notifications_lost = Counter(
            "kilonova_notifications_lost",
            "Notifications lost: the broker was unreachable for too long, or their payload could not be built.",
            registry=self._registry,
        )

    def watch(self, sources: Sources, *, clock: Callable[[], float] = time.monotonic) -> None:
        """Add the gauges for running workflows and queues, from ``sources``."""
        self._registry.register(_UnderWay(sources, clock))

    def observe(self, event: WorkflowEvent) -> None:
        """Count an event of a workflow."""
        if event.phase is Phase.BROKE:
            self._retries.labels(event.kind, event.step).inc()
        if event.phase in _STEP_ENDS:
            direction = "undo" if event.undoing else "do"
            self._step_took(event.kind, event.step, direction).observe(event.seconds)
        outcome = _OUTCOMES.get(event.phase)
        if outcome is not None:
            self._finished_as(event.kind, outcome).inc()

    def decided(self, servers: int, seconds: float) -> None:
        """Record a scheduling decision: the number of servers that got hosts, and its duration in seconds."""
        self._decisions.observe(seconds)
        self._decided.inc(servers)

    def hosts_removed(self, removed: Mapping[str, int]) -> None:
        """Count the hosts that each rule removed in a decision. Rules beyond the first ``MOST_RULES`` are ``other``."""
        for rule, hosts in removed.items():
            if rule not in self._rules and len(self._rules) < MOST_RULES:
                self._rules.add(rule)
            self._removed.labels(rule if rule in self._rules else "other").inc(hosts)

    def notification_sent(self) -> None:
        """Count a notification that was sent."""
        self._notifications.inc()

    def notification_lost(self) -> None:
        """Count a notification that was lost."""
        self._notifications_lost.inc()

    def plan_move_ended(self, outcome: str) -> None:
        """Count a move of an applied plan that has ended."""
        self._plan_moves.labels(outcome).inc()

    def claim_lost(self) -> None:
        """Count a claim that lost a race."""
        self._claims_lost.inc()

    def text(self, accept: str | None = None) -> tuple[bytes, str]:
        """Return all metrics in a format that the client accepts, and the media type of that format."""
        encode, media_type = choose_encoder(accept or "")
        return encode(self._registry), media_type


class _UnderWay(Collector):
    """Collector of the gauges, which reads their values from ``sources`` at each scrape."""

    def __init__(self, sources: Sources, clock: Callable[[], float]) -> None:
        self._sources = sources
        self._clock = clock
        self._lock = threading.Lock()
        self._counted: tuple[datetime, Sequence[Count]] | None = None
        self._odd: Mapping[str, int] = {}
        self._ports: Mapping[str, int] = {}
        self._free: Mapping[str, Finished] = {}
        self._until = float("-inf")

    def collect(self) -> Iterable[GaugeMetricFamily]:
        counted = self._count()
        answers = GaugeMetricFamily("kilonova_database_answers", "1 if the database answered the last queries, else 0.")
        answers.add_metric((), 0 if counted is None else 1)
        yield answers
        if counted is not None:
            yield from _families(*counted)
            yield _odd_guests(self._odd)
            yield _stray_ports(self._ports)
            yield from _capacity_families(counted[0], self._free)
        parked = GaugeMetricFamily(
            "kilonova_workflows_waiting_for_agents", "Workflows of this process that wait for the reply of an agent."
        )
        parked.add_metric((), self._sources.parked())
        yield parked
        queues = GaugeMetricFamily("kilonova_queue_length", "Queued work of this process.", labels=["queue"])
        queues.add_metric(("database writer",), self._sources.waiting_writes())
        for name, length in self._sources.waiting_work().items():
            queues.add_metric((name,), length)
        yield queues

    def _count(self) -> tuple[datetime, Sequence[Count]] | None:
        """Return the database's counts, from the cache for ``KEPT_S``; None if the database does not answer."""
        with self._lock:
            if self._clock() >= self._until:
                try:
                    self._counted = self._sources.under_way()
                    self._odd = self._sources.odd_guests()
                    self._ports = self._sources.stray_ports()
                    self._free = self._sources.capacity_counts()
                except KilonovaError:
                    self._counted = None
                self._until = self._clock() + KEPT_S
            return self._counted


def _families(now: datetime, counted: Sequence[Count]) -> Iterable[GaugeMetricFamily]:
    flows = GaugeMetricFamily(
        "kilonova_workflows", "Unfinished workflows in the whole cloud.", labels=["kind", "step", "state"]
    )
    oldest = GaugeMetricFamily(
        "kilonova_oldest_workflow_seconds",
        "Age of the oldest unfinished workflow in the whole cloud.",
        labels=["kind", "step", "state"],
    )
    by_labels: dict[tuple[str, str, str], list[Count]] = defaultdict(list)
    # workflows stuck at a step may have two counts with the same labels: of their ``do`` and of their ``undo``
    for each in counted:
        by_labels[each.kind, each.step, state_of(each)].append(each)
    for labels, together in by_labels.items():
        flows.add_metric(labels, sum(each.workflows for each in together))
        oldest.add_metric(labels, max(0.0, (now - min(each.oldest for each in together)).total_seconds()))
    yield flows
    yield oldest


def _odd_guests(counted: Mapping[str, int]) -> GaugeMetricFamily:
    return _by_reason(
        "kilonova_stray_guests",
        "Guests that are not where their servers are recorded, and servers without a guest, in the whole cloud.",
        counted,
    )


def _stray_ports(counted: Mapping[str, int]) -> GaugeMetricFamily:
    return _by_reason(
        "kilonova_stray_ports",
        "Ports without a server, and interfaces of servers without a port, at their last count in the whole cloud.",
        counted,
    )


def _capacity_families(now: datetime, counts: Mapping[str, Finished]) -> Iterable[GaugeMetricFamily]:
    ages = GaugeMetricFamily(
        "kilonova_capacity_count_age_seconds", "Time since the last count of free resources.", labels=["count"]
    )
    for name, last in counts.items():
        ages.add_metric((name,), max(0.0, (now - last.at).total_seconds()))
    yield ages
    fits = GaugeMetricFamily(
        "kilonova_capacity_servers", "More servers of a flavor that fit, each flavor alone.", labels=["flavor"]
    )
    for flavor, servers in _result(counts, "capacity").items():
        fits.add_metric((flavor,), servers)
    yield fits
    shares = GaugeMetricFamily(
        "kilonova_stranded_share", "Part of the capacity that no flavor can use any more.", labels=["resource_class"]
    )
    for name, share in _result(counts, "stranded resources").items():
        shares.add_metric((name,), share)
    yield shares
    losses = _result(counts, "n-plus-one")
    survives = GaugeMetricFamily(
        "kilonova_any_host_can_be_lost", "1 if the servers of any one host fit elsewhere, else 0; absent if unknown."
    )
    failing = GaugeMetricFamily("kilonova_hosts_that_cannot_be_lost", "Hosts whose servers do not fit elsewhere.")
    if losses and (losses["complete"] or losses["failing"]):
        survives.add_metric((), 0 if losses["failing"] else 1)
        failing.add_metric((), losses["failing"])
    yield survives
    yield failing


def _result(counts: Mapping[str, Finished], name: str) -> Mapping[str, Any]:
    return counts[name].result if name in counts else {}


def _by_reason(name: str, text: str, counted: Mapping[str, int]) -> GaugeMetricFamily:
    family = GaugeMetricFamily(name, text, labels=["reason"])
    for reason, count in counted.items():
        family.add_metric((reason,), count)
    return family
