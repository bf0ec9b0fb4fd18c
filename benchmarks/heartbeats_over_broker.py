# SPDX-License-Identifier: Apache-2.0
"""Cost of heartbeats of 100,000 hosts in 100 agent processes over RabbitMQ; only the hypervisors are simulated.

``heartbeats`` measures only the processing of the messages; here they pass through a broker. The control process
(``kilonova api``), RabbitMQ, PostgreSQL with durable commits, and the agents (``kilonova compute``) are separate
processes, and each agent has its own account, connection and queues (``_many_agents.py``). Printed are

- the cost of registering all hosts when all agent processes start at once;
- the cost of heartbeats alone;
- the time until the hosts of a killed agent process are down in ``/os-services``, and up again after its restart;
- the cost of a complete ``/os-services`` and of ``openstack compute service list``;
- the time until all agents send heartbeats again after a restart of the control process, and of the broker.

    python -m benchmarks heartbeats_over_broker [-- AGENTS [HOSTS_EACH [SECONDS]]]
"""

import os
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from http.client import HTTPConnection
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.support.database_servers import PostgreSQL, running

from benchmarks._many_agents import ManyAgents, Moment, wait_until

AGENTS, HOSTS_EACH, SECONDS = 100, 1_000, 120.0
GOAL_CPU, GOAL_MIB_AN_HOUR = 2.0, 10.0
_ALONE_S, _SETTLES_S = 10.0, 20.0
_REGISTERED_WITHIN_S, _HEARD_WITHIN_S = 900.0, 300.0
_MIB = 2**20
_SERVICES = "/compute/v2.1/os-services"
#: Default settings with an explicit service_down_time, in seconds.
_SETTINGS = "service_down_time = 60\n"


def main(options: Sequence[str] = ()) -> None:
    agents, hosts = int(options[0]) if options else AGENTS, int(options[1]) if len(options) > 1 else HOSTS_EACH
    seconds = float(options[2]) if len(options) > 2 else SECONDS
    print(f"{agents} agent processes with {hosts} hosts each, {os.cpu_count()} cores for all processes", flush=True)
    server = PostgreSQL(durable=True)
    with running(server), TemporaryDirectory(prefix="kilonova-bench-") as name, ExitStack() as undo:
        folder = Path(name)
        folder.chmod(0o711)  # the broker needs access, and may run as another user
        cloud = ManyAgents(folder, server, agents, hosts, _SETTINGS)
        undo.callback(cloud.stop)
        cloud.start_broker()
        cloud.start_control()
        _rest(cloud, "without agents", _ALONE_S)
        _register(cloud)
        time.sleep(_SETTLES_S)
        _rest(cloud, "with heartbeats", seconds)
        _tell_memory(cloud)
        _lose_one(cloud)
        _list(cloud)
        _restart_control(cloud)
        _restart_broker(cloud)


def _register(cloud: ManyAgents) -> None:
    before, hosts = cloud.now(), len(cloud.agents) * cloud.hosts_each
    cloud.start_agents(cloud.agents)
    wait_until(lambda: cloud.registered() == hosts, _REGISTERED_WITHIN_S)
    after = cloud.now()
    each = ", ".join(f"{kind} {1000 * taken / hosts:.3f}" for kind, taken in _cpu_s(before, after).items())
    seconds = after.at - before.at
    print(
        f"  all {hosts} hosts registered after {seconds:.1f} s ({1000 * seconds / hosts:.2f} ms per host); CPU "
        f"time per host, ms: {each}; {_written(before, after)}{_load()}",
        flush=True,
    )
    if len(cloud.sessions()) != len(cloud.agents):
        print(f"  {len(cloud.sessions())} sessions have a lease", flush=True)


def _rest(cloud: ManyAgents, what: str, seconds: float) -> None:
    """Wait for ``seconds`` and print the resource usage."""
    before, sessions = cloud.now(), cloud.sessions()
    time.sleep(seconds)
    after = cloud.now()
    passed = after.at - before.at
    shares = {kind: 100 * taken / passed for kind, taken in _cpu_s(before, after).items()}
    logs = {kind: after.log_bytes[kind] - before.log_bytes[kind] for kind in before.log_bytes}

    def an_hour(count: float) -> str:
        return f"{count * 3600 / passed / _MIB:.2f} MiB"

    print(
        f"  {what}, {passed:.0f} s: " + ", ".join(f"{kind} {share:.2f} %" for kind, share in shares.items()) + " of a "
        f"core (goal of control {GOAL_CPU:.0f}); per hour: change log {an_hour(after.change_log - before.change_log)} "
        f"in {(after.commits - before.commits) * 3600 / passed:.0f} commits, text log {an_hour(logs['control'])} of "
        f"control (goal {GOAL_MIB_AN_HOUR:.0f} together) and {an_hour(logs['agents'])} of agents, WAL "
        f"{an_hour(after.wal - before.wal)}; {len(sessions - cloud.sessions())} sessions ended{_load()}",
        flush=True,
    )


def _lose_one(cloud: ManyAgents) -> None:
    """Kill and restart an agent process; print when the API shows its hosts down and up."""
    agent = cloud.agents[0]
    path = f"{_SERVICES}?binary=nova-compute&host={cloud.host(agent)}"

    def is_so(state: str) -> bool:
        return bool(cloud.client().call("GET", path)["services"][0]["state"] == state)

    for what, state in ((cloud.kill_agent, "down"), (lambda agent: cloud.start_agents([agent]), "up")):
        before = cloud.now()
        what(agent)
        wait_until(lambda state=state: is_so(state), _HEARD_WITHIN_S)  # type: ignore[misc]
        passed = time.perf_counter() - before.at
        found = cloud.client().call("GET", f"{_SERVICES}?binary=nova-compute")["services"]
        down = sum(service["state"] == "down" for service in found)
        word = "killed" if state == "down" else "started again"
        print(f"  one agent process is {word}: its hosts are {state} after {passed:.1f} s, and {down} of all are down")


def _list(cloud: ManyAgents) -> None:
    """Measure a list of all services with a bare HTTP client and with the ``openstack`` command."""
    cloud.forget_peak()
    resident = cloud.memory_mib("control")[0]
    for _ in range(3):
        before = cloud.now()
        connection = HTTPConnection(cloud.url.removeprefix("http://"), timeout=120)
        connection.request("GET", _SERVICES, headers={"X-Auth-Token": "admin"})
        length = len(connection.getresponse().read())
        after = cloud.now()
        cpu = _cpu_s(before, after)
        print(
            f"  GET /os-services: {after.at - before.at:.2f} s, {length / _MIB:.1f} MiB; CPU time, s: control "
            f"{cpu['control']:.2f}, PostgreSQL {cpu['PostgreSQL']:.2f}; memory of control {resident:.0f} MiB "
            f"before, {cloud.memory_mib('control')[2]:.0f} at most{_load()}",
            flush=True,
        )
    program = str(Path(sys.executable).parent / "openstack")
    access = ("--os-auth-type", "admin_token", "--os-token", "admin", "--os-endpoint", f"{cloud.url}/compute/v2.1")
    since = time.perf_counter()
    command = [program, *access, "compute", "service", "list", "-f", "csv"]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as client:
        assert client.stdout is not None
        rows = sum(1 for _ in client.stdout) - 1
        _, status, used = os.wait4(client.pid, 0)
        client.returncode = os.waitstatus_to_exitcode(status)
    seconds, cpu_s, peak_mib = time.perf_counter() - since, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024
    print(
        f"  openstack compute service list: {seconds:.1f} s for {rows} rows, exit {client.returncode}; client CPU time "
        f"{cpu_s:.1f} s, memory {peak_mib:.0f} MiB",
        flush=True,
    )


def _restart_control(cloud: ManyAgents) -> None:
    sessions, before, since = cloud.sessions(), cloud.now(), cloud.database.clock.now()
    cloud.kill_control()
    ready_s = cloud.start_control()
    print(f"  the control process is killed and restarted: it answers after {ready_s:.1f} s", flush=True)
    _tell_return(cloud, sessions, before, since)
    _tell_memory(cloud)


def _restart_broker(cloud: ManyAgents) -> None:
    sessions, before = cloud.sessions(), cloud.now()
    cloud.restart_broker()
    print(f"  the broker is killed and restarted: it listens after {time.perf_counter() - before.at:.1f} s", flush=True)
    _tell_return(cloud, sessions, before, cloud.database.clock.now())


def _tell_return(cloud: ManyAgents, sessions: frozenset[str], before: Moment, since: object) -> None:
    """Wait until every agent has sent a heartbeat after ``since``; print the time since ``before``."""
    wait_until(lambda: len(cloud.heard_since(since)) >= len(cloud.agents), _HEARD_WITHIN_S)
    after = cloud.now()
    cpu = ", ".join(f"{kind} {taken:.1f}" for kind, taken in _cpu_s(before, after).items())
    print(
        f"    heartbeats of all agents after {after.at - before.at:.1f} s, {len(sessions & cloud.sessions())} of "
        f"{len(sessions)} sessions continue; CPU time, s: {cpu}; {_written(before, after)}{_load()}",
        flush=True,
    )


def _tell_memory(cloud: ManyAgents) -> None:
    for kind in ("control", "agents"):
        resident, share, peak = cloud.memory_mib(kind)
        print(f"  memory of {kind}: RSS {resident:.0f} MiB, PSS {share:.0f} MiB; highest peak RSS {peak:.0f} MiB")


def _cpu_s(before: Moment, after: Moment) -> dict[str, float]:
    return {kind: taken - before.cpu_s[kind] for kind, taken in after.cpu_s.items()}


def _written(before: Moment, after: Moment) -> str:
    change_log, wal = after.change_log - before.change_log, after.wal - before.wal
    commits = after.commits - before.commits
    return f"change log {change_log / _MIB:.1f} MiB in {commits} commits, WAL {wal / _MIB:.1f} MiB"


def _load() -> str:
    return f" (load {os.getloadavg()[0]:.1f})"
