# SPDX-License-Identifier: Apache-2.0
"""Adapter for a third-party scheduler driver. It limits the time of calls and checks every answer.

::

    request ── thread of its own ── select_destinations ──▶ read the answer ──▶ room for all? ──▶ decisions
                  │ timeout, exception                         │ invalid          │ no: ask again without these hosts
                  ▼                                            ▼                   ▼ no attempts left
               refusal                                      refusal             refusal
"""

import contextlib
import logging
import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextvars import copy_context
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from kilonova.errors import NoValidHost, RequestFilterFailed, RuleFailed, Unavailable
from kilonova.model.host_devices import DeviceShare
from kilonova.model.request_spec import RequestSpec
from kilonova.model.server_group import GroupView
from kilonova.records import dataclass
from kilonova.scheduler.decision import SURVIVED, Decision, RankedHost, RuleCount
from kilonova.scheduler.driver import Cloud, RequestContext, Scheduler
from kilonova.scheduler.engine.engine import Engine
from kilonova.scheduler.engine.funnel import isolation_steps, name_steps
from kilonova.scheduler.engine.move_rules import move_steps
from kilonova.scheduler.engine.provider_trees import Allocations
from kilonova.scheduler.filters import ServerGroupAffinityFilter, ServerGroupAntiAffinityFilter
from kilonova.scheduler.guests import guest_of
from kilonova.scheduler.host_table import HostTable
from kilonova.scheduler.nova_compat.request_view import as_driver_arguments
from kilonova.scheduler.nova_compat.view import View

LOG = logging.getLogger(__name__)
#: Maximum number of running calls, including calls past their timeout, because a thread cannot be killed.
_MOST_ABANDONED = 64
_NOT_CHOSEN = "not the host that the driver chose"


@dataclass(frozen=True, slots=True)
class Destination:
    """An existing host and node that a driver chose."""

    host: str
    node: str


class Answer:
    """A third-party driver's answer to one request, converted to decisions.

    ``isolation_version``: version number of the isolation rules against which the answer was checked.
    ``refusal``: the error for the user, if the driver chose no hosts. ``detail``: the error for administrators, which
    may name hosts.
    """

    def __init__(
        self,
        driver: str,
        destinations: Sequence[Destination] = (),
        *,
        refusal: str | None = None,
        detail: str = "",
        isolation_version: int = 0,
    ) -> None:
        self.isolation_version = isolation_version
        self._driver = driver
        self._left: Iterator[Destination] = iter(destinations)
        self._refusal = refusal
        self._detail = detail

    def decide(self, hosts: HostTable) -> Decision:
        """Return the decision for the next server of the request. The decision's only step names the driver."""
        refusal, detail = self._refusal, self._detail or _NOT_CHOSEN
        row = None
        if refusal is None:
            destination = next(self._left)
            row = _row(hosts, destination.host, destination.node)
            if row is None:
                refusal = detail = f"Scheduler driver {self._driver} chose a host that no longer exists."
        removed_by = np.zeros(len(hosts), dtype=np.uint8)
        ranked: tuple[RankedHost, ...] = ()
        if row is not None:
            removed_by[row] = SURVIVED
            ranked = (RankedHost(row, hosts.hosts[row], hosts.nodes[row], hosts.uuids[row], 0.0),)
        step = RuleCount(self._driver, detail, len(hosts), len(ranked))
        return Decision(ranked, (step,), removed_by, len(ranked), refusal=refusal)


@dataclass(frozen=True, slots=True)
class AnsweredBatch:
    """Replacement of the engine's ``Batch`` that takes its decisions from a driver's answer for all servers."""

    answer: Answer
    hosts: HostTable

    def decide(self) -> Decision:
        """Return the decision for the next server of the request."""
        return self.answer.decide(self.hosts)

    def place(self, row: int, allocations: Allocations, share: DeviceShare | None = None) -> None:  # noqa: ARG002
        """Count the NUMA cells and PCI devices of a server. All other usage is already part of the driver's answer."""
        if share:
            self.hosts.count_devices(row, share)

    def alternates(self, count: int, chosen: Collection[str]) -> tuple[RankedHost, ...]:  # noqa: ARG002
        """Return no alternates, because the driver is called again if a spawn fails."""
        return ()


class OutsideDriver:
    """The configured third-party driver. ``timeout_s``: time limit in seconds of all calls for one request together.

    ``max_attempts``: maximum number of calls for one request; the driver is called again if a chosen host has no room.
    """

    def __init__(
        self,
        driver: Scheduler,
        engine: Engine,
        *,
        timeout_s: float = 30.0,
        max_attempts: int = 3,
        service_down_time_s: float = 60,
    ) -> None:
        self.name = type(driver).__name__
        self._driver = driver
        self._runs_instances = type(driver).schedule_run_instance is not Scheduler.schedule_run_instance
        self._engine = engine
        self._timeout_s = timeout_s
        self._max_attempts = max_attempts
        self._service_down_time_s = service_down_time_s
        self._running = threading.BoundedSemaphore(_MOST_ABANDONED)
        self._closing = threading.Event()
        self._calls: set[_Call] = set()
        self._told: dict[str, Any] = {}
        self._told_of: tuple[Any, Any] = (None, None)

    def answer(
        self, spec: RequestSpec, hosts: HostTable, group_of: Callable[[str], GroupView | None] = lambda _: None
    ) -> Answer:
        """Call the driver for all servers of ``spec``. After an error or a timeout, the answer contains a refusal.

        Raises: Unavailable, if the process stops meanwhile.
        """
        cloud = Cloud(hosts, spec, self._engine, group_of, self._service_down_time_s, np.random.default_rng())
        if not self._running.acquire(blocking=False):
            return self._failed(f"is busy with {_MOST_ABANDONED} earlier requests")
        call = _Call(lambda: self._choose(cloud), self._running.release)
        self._calls.add(call)
        try:
            if self._closing.is_set():
                call.abandon()
            return call.result(self._timeout_s)
        except TimeoutError:
            LOG.warning("%s did not answer within %g s", self.name, self._timeout_s)
            return self._failed(f"did not answer within {self._timeout_s:g} s")
        finally:
            self._calls.discard(call)

    def close(self) -> None:
        """Stop waiting for answers of the driver."""
        self._closing.set()
        for call in list(self._calls):
            call.abandon()

    def _choose(self, cloud: Cloud) -> Answer:
        tried: tuple[str, ...] = ()
        for _ in range(self._max_attempts):
            try:
                said = self._ask(cloud, tried)
                chosen = _read(said, cloud.hosts, cloud.spec.num_instances)
                lacking = _without_room(cloud, chosen)
            except _InvalidAnswer as invalid:
                LOG.warning("%s returned an invalid answer: %s", self.name, invalid.detail)
                return self._failed(f"returned an invalid answer: {invalid.fault}", invalid.detail)
            except RuleFailed as failure:
                LOG.exception("%s failed", self.name)
                return Answer(self.name, refusal=failure.message, detail=failure.message)
            except (NoValidHost, RequestFilterFailed) as none:
                return Answer(self.name, refusal=none.message, detail=none.message)
            except BaseException as error:  # third-party code may raise any exception
                LOG.exception("%s failed", self.name)
                return self._failed(f"failed: it raised {type(error).__name__}", f"{type(error).__name__}: {error}")
            if not lacking:
                return Answer(self.name, chosen, isolation_version=cloud.hosts.aggregates.isolation_version)
            LOG.info("%s chose hosts that cannot take the server: %s", self.name, _listed(lacking))
            tried = (*tried, *lacking)
        detail = f"chose {_listed(lacking)}"
        return self._failed("chose no host that can take the server", detail)

    def _ask(self, cloud: Cloud, tried: Sequence[str]) -> Any:
        self._tell_capabilities(cloud.hosts)
        spec = replace(cloud.spec, ignore_hosts=cloud.spec.ignore_hosts | frozenset(tried))
        context = RequestContext.of(replace(cloud, spec=spec))
        request_spec, filter_properties = as_driver_arguments(spec, tried)
        if spec.move is None and self._runs_instances:
            # In some drivers, schedule_run_instance is defined, but only raises NotImplementedError.
            with contextlib.suppress(NotImplementedError):
                return self._launched(context, request_spec, filter_properties)
        return self._driver.select_destinations(context, request_spec, filter_properties)

    def _launched(self, context: RequestContext, request_spec: View, filter_properties: View) -> Any:
        """Call the driver's schedule_run_instance, and return the hosts that it reported.

        Raises: the first error that the driver reported for an instance.
        """
        uuids = tuple(request_spec["instance_uuids"])
        self._driver.schedule_run_instance(context, request_spec, None, [], None, True, filter_properties, False)
        launches = context.launches
        for uuid in uuids:
            if uuid in launches.errors:
                raise launches.errors[uuid]
        return [{"host": launches.hosts[uuid], "nodename": None} for uuid in uuids if uuid in launches.hosts]

    def _tell_capabilities(self, hosts: HostTable) -> None:
        """Report new and changed host capabilities, if the driver implements ``update_service_capabilities``."""
        news = (hosts.profiles, hosts.profile)
        unchanged = news[0] is self._told_of[0] and news[1] is self._told_of[1]
        if unchanged or type(self._driver).update_service_capabilities is Scheduler.update_service_capabilities:
            return
        for row, host in enumerate(hosts.hosts):
            capabilities = hosts.profiles[int(hosts.profile[row])]
            if self._told.get(hosts.uuids[row]) != capabilities:
                report = {
                    "hypervisor_hostname": hosts.nodes[row],
                    "hypervisor_type": capabilities.hypervisor_type,
                    "hypervisor_version": capabilities.hypervisor_version,
                    "supported_instances": [list(triple) for triple in capabilities.supported_instances],
                    "cpu_info": dict(capabilities.cpu_info),
                    **capabilities.extra,
                }
                self._driver.update_service_capabilities("compute", host, report)
                self._told[hosts.uuids[row]] = capabilities
        self._told_of = news

    def _failed(self, how: str, detail: str | None = None) -> Answer:
        refusal = f"Scheduler driver {self.name} {how}."
        return Answer(self.name, refusal=refusal, detail=detail or refusal)


class _Call:
    """A call of the driver in its own daemon thread, so neither the caller nor the process must wait for its end."""

    def __init__(self, work: Callable[[], Answer], at_end: Callable[[], None]) -> None:
        self._done = threading.Event()
        self._answer: Answer | None = None
        self._error: BaseException | None = None
        # The thread gets a copy of the caller's context, which adds the request id to the driver's log lines.
        run = partial(copy_context().run, self._run, work, at_end)
        threading.Thread(target=run, name="scheduler driver", daemon=True).start()

    def result(self, timeout_s: float) -> Answer:
        """Wait for the answer. Raises: TimeoutError; Unavailable, if the call was abandoned; the error of the call."""
        if not self._done.wait(timeout_s):
            raise TimeoutError
        if self._error is not None:
            raise self._error
        if self._answer is None:
            raise Unavailable("The service is stopping.")
        return self._answer

    def abandon(self) -> None:
        self._done.set()

    def _run(self, work: Callable[[], Answer], at_end: Callable[[], None]) -> None:
        try:
            self._answer = work()
        except Exception as error:  # noqa: BLE001 - raised again by result()
            self._error = error
        finally:
            at_end()
            self._done.set()


class _InvalidAnswer(Exception):
    """An invalid answer of a driver. ``fault``: text for users, without host names. ``detail``: for administrators."""

    def __init__(self, fault: str, detail: str | None = None) -> None:
        super().__init__(fault)
        self.fault = fault
        self.detail = detail or fault


def _read(said: Any, hosts: HostTable, count: int) -> tuple[Destination, ...]:
    """Return the destinations in an answer. Raises: _InvalidAnswer, also if their number differs from ``count``."""
    if not isinstance(said, list | tuple):
        raise _InvalidAnswer(f"a list was expected, not {type(said).__name__}")
    read = tuple(_destination(item, hosts) for item in said)
    if len(read) < count:
        raise _InvalidAnswer(f"the driver named {len(read)} of {count} hosts")
    if len(read) > count:
        raise _InvalidAnswer(f"the driver named {len(read)} hosts for {count} servers")
    return read


def _destination(item: Any, hosts: HostTable) -> Destination:
    if not isinstance(item, Mapping):
        raise _InvalidAnswer(f"a destination must be a dict, not {type(item).__name__}")
    host, node = item.get("host"), item.get("nodename")
    if not isinstance(host, str) or not (node is None or isinstance(node, str)):
        raise _InvalidAnswer("a destination must name a host, and a node or None", f"{host!r}, {node!r}")
    row = _row(hosts, host, node)
    if row is None:
        raise _InvalidAnswer("there is no such host", f"there is no host {host!r} with node {node!r}")
    return Destination(host, hosts.nodes[row])


def _row(hosts: HostTable, host: str, node: str | None) -> int | None:
    rows = hosts.rows_of_host().get(host, ())
    return next((row for row in rows if node is None or hosts.nodes[row] == node), None)


def _without_room(cloud: Cloud, chosen: Sequence[Destination]) -> dict[str, str]:
    """Return host → reason, for each chosen host that cannot take all servers for which it was chosen."""
    hosts, spec = cloud.hosts.with_own_use(), cloud.spec
    lacking: dict[str, str] = {}
    for destination in chosen:
        row = _row(hosts, destination.host, destination.node)
        assert row is not None
        if (hindrance := _hindrance(cloud.engine, hosts, spec, row)) is not None:
            lacking[destination.host] = hindrance
            continue
        hosts.count_server(row, cloud.engine.allocations(hosts, spec, row), guest_of(spec))
        if spec.group is not None:
            spec = replace(spec, group=spec.group.with_members(destination.host))
    return lacking


def _hindrance(engine: Engine, hosts: HostTable, spec: RequestSpec, row: int) -> str | None:
    """Return the reason why a host cannot take one more server, or None if it can.

    The checks are the guards of claims and the rules of moves.
    """
    if spec.move is not None:
        for step in (*name_steps(hosts, spec), *move_steps(hosts, spec)):
            if not step.mask[row]:
                return step.reason
    for room in engine.later_room(hosts, spec):
        if not room.has_room(hosts, row):
            return room.reason
    for step in isolation_steps(hosts, spec):
        if not step.mask[row]:
            return step.reason
    for rule in (ServerGroupAntiAffinityFilter(), ServerGroupAffinityFilter()):
        if not rule.passes(hosts, spec)[row]:
            return rule.reason
    return None


def _listed(lacking: Mapping[str, str]) -> str:
    return ", ".join(f"{host} ({why})" for host, why in lacking.items())
