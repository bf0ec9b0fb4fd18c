# SPDX-License-Identifier: Apache-2.0
"""Cost of heartbeats of 100,000 hosts in 100 agent processes: CPU, change log, text log, and WAL of PostgreSQL.

One control process with all its periodic tasks runs on its own database. The hosts are inserted directly into the
tables, and their sessions are registered. The cost of reporting hosts is measured with one agent process, first with
new, then with known hosts. Then all agents send heartbeats, encoded and decoded as on the bus, each every
``report_interval`` (10 s), evenly distributed. The cost without heartbeats is measured before. Figures per hour are
extrapolated. One agent process is silent until it is declared down, and then returns.

    python -m benchmarks heartbeats [-- AGENTS [HOSTS_EACH [SECONDS]]]
"""

import gc
import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from uuid import uuid4

import sqlalchemy as sa

from benchmarks._seeded_cloud import CAPABILITIES, INVENTORY, add_hosts, fresh_database
from kilonova.cli.wiring.core import Core, start_core
from kilonova.config.load import load_settings
from kilonova.db import enrolment, host_agents
from kilonova.db.database import Database
from kilonova.db.host_agents import Process
from kilonova.logs.formatter import OneLineFormatter
from kilonova.messaging import codec
from kilonova.messaging.bus import Sender
from kilonova.messaging.messages import Heartbeat, HeartbeatAnswer, HostsStarted
from kilonova.model.host import NodeReport
from kilonova.model.provider import Inventory
from kilonova.process_parts import ProcessParts

AGENTS, HOSTS_EACH, SECONDS = 100, 1_000, 120.0
GOAL_CPU, GOAL_MIB_AN_HOUR = 2.0, 10.0
_REPORT_INTERVAL_S = 10.0
_DOWN_TIME_S = 30
_ALONE_S = 20.0
_ANNOUNCED_TOGETHER = 200
_MIB = 2**20
_INVENTORIES = tuple(
    Inventory(name, total, reserved, allocation_ratio=ratio) for name, (total, reserved, ratio) in INVENTORY.items()
)
_CONFIG = """
[DEFAULT]
service_down_time = {down_time}
[api]
auth_strategy = noauth2
[database]
connection = {url}
"""


class _Counter(logging.Handler):
    """Log handler that counts the bytes of the formatted records."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self.setFormatter(OneLineFormatter())
        self.count = 0

    def emit(self, record: logging.LogRecord) -> None:
        self.count += len(self.format(record).encode()) + 1


class _AgentProcess:
    """Simulated agent process: sends the messages of one agent with ``hosts``."""

    def __init__(self, number: int, hosts: Sequence[str]) -> None:
        self.sender = Sender(f"agent{number:04d}")
        self.session = str(uuid4())
        self.hosts = tuple(hosts)
        self._count = 0

    def join(self, database: Database) -> None:
        """Register the session, with its known hosts, in the database."""
        process = Process(self.session, agent=self.sender.agent)
        database.write(lambda tx: host_agents.register(tx, process, self.hosts, host_agents.LEASE))

    def report(self, core: Core) -> None:
        for start in range(0, len(self.hosts), _ANNOUNCED_TOGETHER):
            some = self.hosts[start : start + _ANNOUNCED_TOGETHER]
            reports = tuple(NodeReport(host, host, CAPABILITIES, _INVENTORIES, ("COMPUTE_NODE",)) for host in some)
            core.conductor.answer(HostsStarted(reports, {}, self.session), self.sender)

    def beat(self, core: Core) -> bool:
        self._count += 1
        message = codec.decode(codec.encode(Heartbeat(session=self.session, number=self._count)))
        assert isinstance(message, Heartbeat)
        answer = core.conductor.answer(message, self.sender)
        return isinstance(answer, HeartbeatAnswer) and answer.counts


class _Usage:
    """Resource usage of this process, the logs and PostgreSQL at one moment."""

    def __init__(self, database: Database, log: _Counter) -> None:
        self.at, self.cpu = time.perf_counter(), time.process_time()
        with database.read() as connection:
            asked = "SELECT count(*), coalesce(sum(pg_column_size(change_log.*)), 0) FROM change_log"
            self.commits, self.change_log = connection.execute(sa.text(asked)).one()
            self.wal = connection.execute(sa.text("SELECT pg_current_wal_lsn() - '0/0'")).scalar_one()
        self.log = log.count

    def tell_since(self, before: "_Usage", what: str, own_share: float = 0.0) -> float:
        """Print the usage since ``before`` and return the CPU usage in percent of a core.

        ``own_share``: CPU usage without heartbeats, in percent.
        """
        seconds = self.at - before.at
        cpu = 100 * (self.cpu - before.cpu) / seconds

        def an_hour(name: str) -> str:
            return f"{float(getattr(self, name) - getattr(before, name)) * 3600 / seconds / _MIB:.2f}"

        commits = (self.commits - before.commits) * 3600 / seconds
        print(
            f"  {what}, {seconds:.0f} s: {cpu:.2f} % of a core ({cpu - own_share:.2f} % for heartbeats, goal "
            f"{GOAL_CPU:.0f}); per hour: change log {an_hour('change_log')} MiB in {commits:.0f} commits, text log "
            f"{an_hour('log')} MiB (goal {GOAL_MIB_AN_HOUR:.0f} together), WAL {an_hour('wal')} MiB",
            flush=True,
        )
        return cpu


@contextmanager
def _measured(what: str) -> Iterator[None]:
    gc.collect()
    before, start, busy = _resident(), time.perf_counter(), time.process_time()
    yield
    taken, busy = time.perf_counter() - start, time.process_time() - busy
    gc.collect()
    grown = (_resident() - before) / _MIB
    print(f"  {what}: {taken:.1f} s, CPU time {busy:.2f} s; memory of the process grew by {grown:.0f} MiB", flush=True)


def _report_hosts(core: Core) -> None:
    reporting = _AgentProcess(9_999, [f"new{number}" for number in range(_ANNOUNCED_TOGETHER)])
    core.database.write(lambda tx: enrolment.enrol(tx, reporting.sender.agent, reporting.hosts))
    for kind in ("new", "known"):
        with _measured(f"{len(reporting.hosts)} {kind} hosts reported"):
            reporting.report(core)


def _join(core: Core, processes: Sequence[_AgentProcess]) -> None:
    known = sum(len(process.hosts) for process in processes)
    with _measured(f"sessions of {len(processes)} agent processes with {known} known hosts registered"):
        for process in processes:
            process.join(core.database)
        core.mirror.snapshot()


def _beat(core: Core, processes: Sequence[_AgentProcess], seconds: float) -> None:
    """Send the heartbeats of all agents; the first agent is silent for a while in the middle."""
    silent_from, silent_until = seconds / 4, seconds / 4 + _DOWN_TIME_S + 2 * _REPORT_INTERVAL_S
    pause_s = _REPORT_INTERVAL_S / len(processes)
    start, lost, number = time.perf_counter(), 0, 0

    def beat(process: _AgentProcess) -> None:
        nonlocal lost
        lost += not process.beat(core)

    with ThreadPoolExecutor(64) as pool:
        while (now := time.perf_counter() - start) < seconds:
            process = processes[number % len(processes)]
            if process is not processes[0] or not silent_from < now < silent_until:
                pool.submit(beat, process)
            number += 1
            threading.Event().wait(max(0.0, start + number * pause_s - time.perf_counter()))
    print(f"  {number} heartbeats, {lost} of them refused because the session had ended", flush=True)


def _resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


def _rest(_core: Core, _processes: Sequence[_AgentProcess], seconds: float) -> None:
    """Send nothing for ``seconds``, which must be shorter than a lease."""
    time.sleep(seconds)


def main(options: Sequence[str] = ()) -> None:
    agents, hosts = int(options[0]) if options else AGENTS, int(options[1]) if len(options) > 1 else HOSTS_EACH
    seconds = float(options[2]) if len(options) > 2 else SECONDS
    log = _Counter()
    root = logging.getLogger("kilonova")
    root.addHandler(log)
    root.setLevel(logging.INFO)
    with fresh_database("postgresql") as database, TemporaryDirectory() as folder, ExitStack() as undo:
        file = Path(folder) / "kilonova.conf"
        url = database.url.render_as_string(hide_password=False)
        file.write_text(_CONFIG.format(url=url, down_time=_DOWN_TIME_S))
        parts = ProcessParts()
        undo.callback(parts.stop)
        core = start_core(load_settings([str(file)]), database, (), parts)
        _report_hosts(core)
        add_hosts(database, agents * hosts, traits=2)  # two traits are enough: they do not affect heartbeats
        core.mirror.reload()
        names = [host for host in core.mirror.snapshot().hosts if not host.startswith("new")]
        processes = [_AgentProcess(each, names[each * hosts : (each + 1) * hosts]) for each in range(agents)]
        _join(core, processes)
        parts.start(core.upkeep)
        own_share = 0.0
        phases: tuple[tuple[str, Callable[..., None], float], ...] = (
            ("without heartbeats", _rest, _ALONE_S),
            ("with heartbeats", _beat, seconds),
        )
        for what, phase, length in phases:
            before = _Usage(database, log)
            phase(core, processes, length)
            own_share = _Usage(database, log).tell_since(before, what, own_share)
