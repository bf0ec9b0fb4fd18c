# SPDX-License-Identifier: Apache-2.0
"""The bus inside one process: a small pool of threads for all agents, another for the conductor, one for what waits."""

import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol

from kilonova.errors import Unavailable
from kilonova.messaging.messages import AgentMessage, ConductorMessage, HostsStarted, Orphans

LOG = logging.getLogger(__name__)
#: Takes a message in order and returns the work to run in the background, if any.
Accept = Callable[[AgentMessage], Callable[[], None] | None]
_AGENT_THREADS = 32
_CONDUCTOR_THREADS = 4
_ASIDE_THREADS = 16


class Bus(Protocol):
    """What both ends need of a message bus."""

    def cast(self, host: str, message: AgentMessage) -> None:
        """Hand a message to the agent of ``host``. Raises: Unavailable when there is none."""

    def tell(self, message: ConductorMessage) -> None:
        """Hand a message to the conductor."""

    def announce(self, message: HostsStarted) -> Orphans:
        """Tell the conductor of agents that start, and wait for its answer."""


class LocalBus:
    """All agents and the conductor in this process. Messages run in the background, in the order the agent keeps."""

    def __init__(self) -> None:
        self._agents: dict[str, Accept] = {}
        self._conductor: Callable[[ConductorMessage], None] | None = None
        self._greeter: Callable[[HostsStarted], Orphans] | None = None
        self._agent_pool = ThreadPoolExecutor(_AGENT_THREADS, thread_name_prefix="agent")
        self._conductor_pool = ThreadPoolExecutor(_CONDUCTOR_THREADS, thread_name_prefix="conductor")
        self._aside_pool = ThreadPoolExecutor(_ASIDE_THREADS, thread_name_prefix="aside")

    def serve_agent(self, host: str, accept: Accept) -> None:
        self._agents[host] = accept

    def serve_conductor(
        self, handler: Callable[[ConductorMessage], None], greeter: Callable[[HostsStarted], Orphans]
    ) -> None:
        self._conductor, self._greeter = handler, greeter

    def cast(self, host: str, message: AgentMessage) -> None:
        accept = self._agents.get(host)
        if accept is None:
            raise Unavailable(f"No agent serves host {host}.")
        work = accept(message)
        if work is not None:
            self._agent_pool.submit(_guarded, work)

    def tell(self, message: ConductorMessage) -> None:
        if self._conductor is None:
            raise Unavailable("No conductor is there.")
        conductor = self._conductor
        self._conductor_pool.submit(_guarded, lambda: conductor(message))

    def run_in_conductor(self, work: Callable[[], None]) -> None:
        """Run the conductor's own work on its pool."""
        self._conductor_pool.submit(_guarded, work)

    def run_aside(self, work: Callable[[], None]) -> None:
        """Run the conductor's own work where it may wait for seconds and hold nothing else up."""
        self._aside_pool.submit(_guarded, work)

    def announce(self, message: HostsStarted) -> Orphans:
        if self._greeter is None:
            raise Unavailable("No conductor is there.")
        return self._greeter(message)

    def close(self) -> None:
        """Stop taking messages and wait for the ones that run."""
        self._agents.clear()
        self._agent_pool.shutdown(wait=True, cancel_futures=True)
        self._aside_pool.shutdown(wait=True, cancel_futures=True)
        self._conductor_pool.shutdown(wait=True, cancel_futures=True)


def _guarded(work: Callable[[], None]) -> None:
    """Run work at the border of a message: what it raises is logged, never lost in a pool."""
    try:
        work()
    except Exception:
        LOG.exception("A message could not be handled")
