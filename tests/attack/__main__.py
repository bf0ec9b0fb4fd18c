# SPDX-License-Identifier: Apache-2.0
"""Run all known attacks on a private cloud while another user sends everyday requests.

python -m attack [--database sqlite|postgresql] [--seconds S] [NAME ...]
"""

import argparse
import json
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from statistics import mean

from attack.attack import Attack, Outcome
from attack.attacks import ATTACKS
from attack.bystander import Bystander, Latency
from attack.searches import CONFIGURATION
from attack.target import RunningCloud, Target, running_cloud

_SCOPES = "scopes and roles on a real Keystone"
_QUIET_S = 3.0
_SETTLE_S = 1.5
#: Tolerance for latency noise of the machine, in milliseconds.
_NOISE_MS = 0.5


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help="run the attacks whose names contain NAME; default: all"
    )
    parser.add_argument("--database", action="append", choices=["sqlite", "postgresql"])
    parser.add_argument("--seconds", type=float, default=8.0, help="duration of each attack")
    chosen = parser.parse_args()
    wanted = [attack for name, attack in ATTACKS.items() if _is_chosen(name, chosen.names)]
    if not wanted and not _is_chosen(_SCOPES, chosen.names):
        parser.error(f"no attack has the name {chosen.names[0]!r}; there are: {', '.join((*ATTACKS, _SCOPES))}")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # exits through the context managers, which stop the cloud
    passed = failed = 0
    for database in (chosen.database or ["sqlite", "postgresql"]) if wanted else []:
        with (
            tempfile.TemporaryDirectory(prefix="kilonova-attack-") as folder,
            running_cloud(database, Path(folder), CONFIGURATION) as cloud,
        ):
            for attack in wanted:
                complaints = _try(cloud, attack, chosen.seconds, database)
                passed, failed = passed + (not complaints), failed + bool(complaints)
    if _is_chosen(_SCOPES, chosen.names):
        complaints = _try_scopes()
        passed, failed = passed + (not complaints), failed + bool(complaints)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


def _is_chosen(name: str, parts: Sequence[str]) -> bool:
    return not parts or any(part in name for part in parts)


def _try_scopes() -> str:
    """Call every route with tokens of every scope and role from a real Keystone. Returns the violations."""
    command = [sys.executable, "-m", "pytest", "-q", "-rN", str(Path(__file__).parents[1] / "api" / "test_access.py")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    last = done.stdout.strip().splitlines()[-1:] or [done.stderr[-300:]]
    print(f"{'FAIL' if done.returncode else 'pass'}  {_SCOPES:<48} {last[0]}", flush=True)
    return last[0] if done.returncode else ""


def _try(cloud: RunningCloud, attack: Attack, seconds: float, database: str) -> list[str]:
    before, memory, disk = _live(cloud.target, _QUIET_S), cloud.memory_mib(), cloud.disk_mib()
    bystander, (outcome, stuck) = _attacked(cloud.target, attack, seconds)
    time.sleep(_SETTLE_S)
    after = _live(cloud.target, _QUIET_S)
    grown, written = cloud.memory_mib() - memory, cloud.disk_mib() - disk
    quiet = mean((before.p50_ms, after.p50_ms))
    complaints = list(_complaints(attack, outcome, bystander, quiet))
    complaints += [f"afterwards: {failure}" for failure in after.failures]
    if stuck:
        complaints.append("the attacker process did not end: its requests got no response")
    allowed = attack.memory_mib * len(cloud.target.ports)
    if grown > allowed:
        complaints.append(f"{grown:.0f} MiB of memory more than before (at most {allowed:.0f})")
    if written > attack.disk_mib:
        complaints.append(f"{written:.0f} MiB more on disk (at most {attack.disk_mib:.0f})")
    if not cloud.is_whole():
        complaints.append("a control process has exited")
    print(
        f"{'FAIL' if complaints else 'pass'}  {database:<10}  {attack.name:<36}"
        f" others p50 {bystander.p50_ms:6.2f} ms ({bystander.p50_ms / quiet:5.2f} x quiet)"
        f" p99 {bystander.p99_ms:7.1f} worst {bystander.worst_ms:8.1f} ms;"
        f" {sum(outcome.sent.values()):6} sent, slowest {outcome.slowest_s:5.2f} s;"
        f" memory {grown:+5.0f} MiB, disk {written:+6.1f} MiB",
        flush=True,
    )
    for complaint in complaints:
        print(f"      {complaint[:300]}", flush=True)
    return complaints


def _complaints(attack: Attack, outcome: Outcome, others: Latency, quiet_ms: float) -> Iterator[str]:
    yield from (f"another user: {failure}" for failure in others.failures[:5])
    yield from outcome.wrong[:5]
    if others.p50_ms > quiet_ms * attack.p50_ratio + _NOISE_MS:
        yield f"the median of other users grew to {others.p50_ms / quiet_ms:.2f} x (at most {attack.p50_ratio} x)"
    if others.worst_ms > attack.worst_ms:
        yield f"a request of another user took {others.worst_ms:.0f} ms (at most {attack.worst_ms:.0f} ms)"
    if outcome.slowest_s > attack.own_s:
        yield f"one of the attacker's requests took {outcome.slowest_s:.1f} s (at most {attack.own_s:.0f} s)"


def _live(target: Target, seconds: float) -> Latency:
    return Bystander(target, seconds).latency()


def _attacked(target: Target, attack: Attack, seconds: float) -> tuple[Latency, tuple[Outcome, bool]]:
    command = [sys.executable, "-m", "attack.attacks", attack.name, target.as_json(), str(seconds + 2)]
    attacker = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    time.sleep(2)  # waits until the attack is at full load
    bystander = Bystander(target, seconds).latency()
    printed = ""
    try:
        printed, _ = attacker.communicate(timeout=60)
    except subprocess.TimeoutExpired:
        attacker.kill()
        attacker.communicate()
    outcome = Outcome()
    with suppress(ValueError):
        outcome = Outcome(**json.loads(printed))
    return bystander, (outcome, not printed)


if __name__ == "__main__":
    sys.exit(main())
