# SPDX-License-Identifier: Apache-2.0
"""Fault test: a cloud under load while its processes, broker, database and network fail.

python -m crash.faults [--faults N] [--agents N] [--hosts N] [--lease S] [--partition S] [--seed N]

At intervals all faults end; then all workflows must end, and all invariants must hold.
"""

import argparse
import contextlib
import http.client
import logging
import shutil
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from crash.fault_checks import TwoHostsWatch, check, come_to_rest, tell_stories
from crash.fault_cloud import SHORTEST_LEASE_S, FaultCloud, Size
from crash.fault_kinds import Fault, Faults
from crash.http_load import HttpLoad, Promised
from crash.launcher import Launcher
from support.waiting import wait_until

_AT_ONCE = 3
_TICK_S = 0.1
_TELL_EVERY_S = 10.0
#: Servers of a batch request: more than one chunk.
_BATCH = 101
#: Timeout for coming to rest: a number of leases, plus seconds for a slow machine.
_REST_LEASES, _REST_S = 10, 90.0


@dataclass(frozen=True)
class _Under:
    """Active fault. ``until``: its end on the monotonic clock."""

    fault: Fault
    until: float
    end: Callable[[], None]


class Run:
    """Run of the fault test. ``every_s``: average seconds between faults. ``told``: callback for progress messages."""

    def __init__(self, cloud: FaultCloud, options: argparse.Namespace) -> None:
        self._cloud = cloud
        self._options = options
        self._faults = Faults(cloud, str(options.seed), options.partition, options.kills)
        self._under: list[_Under] = []
        self._promised = Promised()
        self._watch = TwoHostsWatch(cloud.hypervisors)
        self._taken: Counter[str] = Counter()
        self._began = self._told = time.monotonic()
        self.kinds: Counter[str] = Counter()
        self.done = 0
        self.restarts = 0

    def run(self) -> None:
        """Inject the requested number of faults. Raises: AssertionError if an invariant is violated afterwards."""
        self._watch.start()
        try:
            while self.done < self._options.faults:
                self._some(min(self._options.look_every, self._options.faults - self.done))
        finally:
            self._watch.stop()

    def _some(self, wanted: int) -> None:
        load = HttpLoad(
            self._cloud.call,
            f"{self._options.seed}-{self.done}",
            clients=self._options.clients,
            servers=self._options.servers,
            flavors=("1", "2", "3"),
            groups=self._cloud.groups,
            most_together=4,
            batch=_BATCH,
            pause_s=0.3,
            promised=self._promised,
            keeps_deleted=True,
            rack=self._cloud.rack,
            networks=self._cloud.neutron.networks,
        )
        load.start()
        try:
            next_at, begun = time.monotonic() + 1.0, 0
            while begun < wanted or self._under:
                now = time.monotonic()
                for each in [each for each in self._under if each.until <= now]:
                    self._end(each)
                self._keep_running()
                if begun < wanted and now >= next_at and len(self._under) < _AT_ONCE:
                    begun += self._begin()
                    next_at = now + self._options.every
                self._tell()
                time.sleep(_TICK_S)
            self._look(load)
        finally:
            for each in list(self._under):
                self._end(each)
            load.stop()

    def _begin(self) -> int:
        """Start a fault, unless its victim already has one. Returns the number of started faults."""
        fault = self._faults.choose()
        if any(fault.victims & each.fault.victims for each in self._under):
            return 0
        self._say(f"{fault.name}, {fault.seconds:.1f} s")
        self._under.append(_Under(fault, time.monotonic() + fault.seconds, fault.begin()))
        self.done += 1
        self.kinds[fault.name.partition(" beyond")[0].rstrip("0123456789")] += 1
        return 1

    def _end(self, under: _Under) -> None:
        self._under.remove(under)
        under.end()
        self._say(f"over: {under.fault.name}")

    def _keep_running(self) -> None:
        """Restart processes that exited on their own, for example a control process without a database."""
        victims = {name for each in self._under for name in each.fault.victims}
        for process in self._cloud.processes:
            if process.name not in victims and not process.is_running:
                process.kill()
                process.start()
                self.restarts += 1
                self._say(f"{process.name} had exited on its own")

    def _look(self, load: HttpLoad) -> None:
        """Stop the load, and check all invariants."""
        timeout = _REST_LEASES * self._options.lease + _REST_S
        until = time.monotonic() + timeout
        while not all(control.answers() for control in self._cloud.controls):
            self._keep_running()
            assert time.monotonic() < until, "a control process did not answer in time"
            time.sleep(_TICK_S)
        load.stop()
        for kind, count in load.taken.items():
            self._taken[kind] += count
        wait_until(
            lambda: self._all_declared_up(load), "all hosts to lose the flag forced_down", at_most_s=timeout, every_s=1
        )
        self._cloud.until_in_session(at_most_s=timeout)
        began = time.monotonic()
        come_to_rest(self._cloud, at_most_s=timeout)
        states = Counter(check(self._cloud, self._promised, self._watch).values())
        self._say(f"in order after {time.monotonic() - began:.1f} s: {dict(states)}")

    def _all_declared_up(self, load: HttpLoad) -> bool:
        """Clear forced_down on the hosts that the load declared down. Returns whether all of them are cleared."""
        self._keep_running()
        with contextlib.suppress(OSError, http.client.HTTPException):
            return load.declare_all_up()
        return False

    def _say(self, what: str) -> None:
        if self._options.verbose:
            print(f"{time.strftime('%H:%M:%S')} {time.monotonic() - self._began:6.1f} {what}", flush=True)

    def _tell(self) -> None:
        now = time.monotonic()
        if now - self._told >= _TELL_EVERY_S:
            self._told = now
            counts = f"{self.done} of {self._options.faults}, {len(self._promised.made)} servers requested"
            print(f"faults: {counts} ({now - self._began:.0f} s)", flush=True)

    def summary(self, problems: int) -> str:
        kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(self.kinds.items()))
        taken = ", ".join(f"{count} {kind}" for kind, count in sorted(self._taken.items()))
        return (
            f"faults: {self.done} faults in {time.monotonic() - self._began:.0f} s ({kinds}); accepted: {taken}; "
            f"{self.restarts} processes exited on their own; {self._cloud.neutron.summary()}; "
            f"{problems} violations, seed {self._options.seed}"
        )


def run(options: argparse.Namespace) -> int:
    """Run the fault test; return the number of violations."""
    launcher = Launcher()
    logging.disable(logging.CRITICAL)  # This process also reads the database during faults and would log errors.
    folder = Path(tempfile.mkdtemp(prefix="kilonova-faults-"))
    folder.chmod(0o755)  # the broker runs as another user and must enter the folder
    cloud = FaultCloud(launcher, folder, Size(options.agents, options.hosts, options.lease), str(options.seed))
    try:
        cloud.start()
        going = Run(cloud, options)
        problems = 0
        try:
            going.run()
        except (AssertionError, OSError, http.client.HTTPException):
            problems = 1
            problem = traceback.format_exc()
            print(f"VIOLATION after {going.done} faults, seed {options.seed}, logs in {folder}:\n{problem}", flush=True)
            print(tell_stories(cloud, problem), flush=True)
        print(going.summary(problems), flush=True)
    finally:
        cloud.stop()
    if not problems:
        shutil.rmtree(folder)
    return problems


def main() -> int:
    parser = argparse.ArgumentParser(prog="crash.faults", description=__doc__)
    parser.add_argument("--faults", type=int, default=30)
    parser.add_argument("--agents", type=int, default=4, help="agent processes")
    parser.add_argument("--hosts", type=int, default=10, help="simulated hosts of each agent process")
    parser.add_argument("--lease", type=float, default=6.0, help="lease in seconds, at least %(default)s")
    parser.add_argument(
        "--partition", type=float, default=0.0, help="maximum seconds of a network partition; default: 2 leases"
    )
    parser.add_argument("--kills", type=float, default=0.0, help="share of the faults that are always SIGKILL")
    parser.add_argument("--every", type=float, default=2.0, help="seconds between two faults")
    parser.add_argument("--look-every", type=int, default=10, help="check all invariants after this many faults")
    parser.add_argument("--servers", type=int, default=40, help="number of servers the load tries to keep")
    parser.add_argument("--clients", type=int, default=4)
    parser.add_argument("--seed", type=int, default=int(time.time()) % 100_000)
    parser.add_argument("--verbose", action="store_true", help="print each fault")
    options = parser.parse_args()
    options.lease = max(options.lease, SHORTEST_LEASE_S)
    options.partition = options.partition or 2 * options.lease
    return int(run(options) > 0)


if __name__ == "__main__":
    sys.exit(main())
