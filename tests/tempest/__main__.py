# SPDX-License-Identifier: Apache-2.0
"""Run Tempest, OpenStack's test suite, against a private `kilonova up` with Keystone, Glance and two hosts.

``tests.txt`` names the tests that must pass, ``sample.txt`` a subset of them. The run fails if one of them fails, is
skipped or does not run, and prints the reason. ``.venv-tempest`` contains the suite (created by `make tempest`).

With ``--hypervisor libvirt`` one of the hosts has real guests. Then the tests of ``libvirt.txt`` must pass too, and
those of ``not_libvirt.txt`` are left out, because they cannot. With ``--networks`` the cloud has Neutron, and the tests
of ``networks.txt`` must pass too. With both, tests log in to guests: then the tests of ``guests.txt`` must pass, and no
others.

python -m tempest [--hypervisor libvirt] [--networks] [--sample] [--everything] [REGEX ...]
"""

import argparse
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from string import Template

import yaml

from kilonova.cli.up.first_image import linux_image
from kilonova.cli.up.seeding import FLAVORS
from support.external_network import external_network
from support.supervisor import Supervisor
from tempest.prepared import NO_NETWORKS, announce_networks, connect, make_people, networks_of, people_of, two_images

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
VENV = ROOT / ".venv-tempest"
_HOSTS = 2
_REGION = "RegionOne"
#: Second host beside the host of real guests, which gets nearly all servers because it has more free memory.
_SMALL_HOST = "hosts: [{name: small, vcpus: 8, memory_mib: 5120, disk_gib: 60}]\n"
#: Options of the cloud: filters beside the default ones, and limits that a test can exceed. An emulated Linux ignores
#: the power button while it boots.
_OPTIONS = Template("""[DEFAULT]
web = $novnc
shutdown_timeout = $shutdown
[filter_scheduler]
enabled_filters = ComputeFilter, ComputeCapabilitiesFilter, ImagePropertiesFilter, ServerGroupAntiAffinityFilter,
    ServerGroupAffinityFilter, SameHostFilter, DifferentHostFilter
[quota]
instances = 1000
cores = 10000
ram = 10000000
""")
_ALL_OF_COMPUTE = r"^tempest\.(api\.compute|serial_tests\.api\.compute)\."
_PASSED = {"success", "xfail"}
_SHOWN_LINES = 6


@dataclass(frozen=True)
class Outcome:
    """Result of a test. ``why``: the last lines of the error."""

    status: str
    why: str
    seconds: float


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("regexes", nargs="*", metavar="REGEX", help="run only the tests that match one of these")
    parser.add_argument("--sample", action="store_true", help="run the tests of sample.txt")
    parser.add_argument(
        "--everything", action="store_true", help="run all of tempest.api.compute, without expecting success"
    )
    parser.add_argument(
        "--hypervisor", choices=["simulated", "libvirt"], default="simulated", help="hypervisor of the first host"
    )
    parser.add_argument("--networks", action="store_true", help="run Neutron, too, and the tests of networks.txt")
    parser.add_argument("--workers", type=int, default=2, help="number of parallel workers")
    parser.add_argument("--timeout", type=int, default=120, help="timeout for a server to become active, in seconds")
    parser.add_argument("--json", type=Path, help="write the result of each test to this file")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="use this folder, and keep it")
    chosen = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # exits through the context managers, which stop the cloud
    wanted = None if chosen.everything else tests_of(chosen)
    if wanted == []:
        parser.error("no test of the list matches")
    began = time.monotonic()
    work = chosen.keep or Path(tempfile.mkdtemp(prefix="kilonova-tempest-"))
    work.mkdir(parents=True, exist_ok=True)
    try:
        patterns = [f"^{re.escape(name)}(\\[|$)" for name in wanted] if wanted is not None else chosen.regexes
        with external_network() if has_reachable_guests(chosen) else nullcontext():
            found = _run(work, patterns or [_ALL_OF_COMPUTE], chosen)
    finally:
        if chosen.keep is None:
            shutil.rmtree(work)
    if chosen.json is not None:
        chosen.json.write_text(json.dumps({name: vars(outcome) for name, outcome in found.items()}, indent=1))
    return report(found, wanted, time.monotonic() - began)


def tests_of(chosen: argparse.Namespace) -> list[str]:
    """Return the names of the tests that must pass."""
    if has_reachable_guests(chosen):
        names = read_names(HERE / "guests.txt")
    else:
        names = read_names(HERE / ("sample.txt" if chosen.sample else "tests.txt"))
        if chosen.hypervisor == "libvirt":
            cannot = read_names(HERE / "not_libvirt.txt")
            names = [name for name in (*names, *read_names(HERE / "libvirt.txt")) if name not in cannot]
        if chosen.networks:
            names += read_names(HERE / "networks.txt")
    if not chosen.regexes:
        return names
    return [name for name in names if any(re.search(regex, name) for regex in chosen.regexes)]


def has_reachable_guests(chosen: argparse.Namespace) -> bool:
    """Return whether tests can log in to guests. Such a cloud has one host, and its guests start slowly."""
    return chosen.hypervisor == "libvirt" and bool(chosen.networks)


def read_names(file: Path) -> list[str]:
    """Read a list of tests: an indented line is a test of the class above it."""
    names, of_class = [], ""
    for line in file.read_text(encoding="utf-8").splitlines():
        if not line.strip() or line.startswith("#"):
            continue
        if line.startswith(" "):
            names.append(f"{of_class}.{line.strip()}")
        else:
            of_class = line.strip()
    return names


def _run(work: Path, patterns: Sequence[str], chosen: argparse.Namespace) -> Mapping[str, Outcome]:
    """Start and prepare a cloud, run the matching tests, and return the result of each."""
    for name in ("log", "locks", "etc"):
        (work / name).mkdir(exist_ok=True)
    more = work / "etc" / "cloud.conf"
    more.write_text(_OPTIONS.substitute(novnc=_novnc(), shutdown=10 if has_reachable_guests(chosen) else 60))
    hosts = ["--hosts", str(_HOSTS)]
    if chosen.hypervisor == "libvirt":
        scenario = work / "etc" / "hosts.yaml"
        scenario.write_text(_SMALL_HOST)
        hosts = [] if chosen.networks else ["--scenario", str(scenario)]
        hosts += ["--hypervisor", "libvirt", "--guests-on-stop", "stop"]
    if chosen.networks:
        hosts.append("--networks")
    cloud = Supervisor(work / "cloud", arguments=(*hosts, "--config-file", str(more))).start()
    try:
        try:
            cloud.until_ready()
        except AssertionError:
            logs = "\n".join(log.read_text()[-3000:] for log in sorted((work / "cloud" / "log").glob("*.log")))
            sys.exit(f"tempest: the cloud did not start; its logs end in\n{logs}")
        _configure(work, cloud, chosen)
        return _run_suite(work, patterns, chosen.workers)
    finally:
        cloud.stop()


def _novnc() -> str:
    """Return the folder of noVNC, whose page some tests request."""
    found = subprocess.run([ROOT / "tools" / "novnc.sh"], stdout=subprocess.PIPE, text=True, check=False)
    if found.returncode:
        sys.exit("tempest: noVNC is needed for tests of consoles")
    return found.stdout.strip()


def _configure(work: Path, cloud: Supervisor, chosen: argparse.Namespace) -> None:
    """Create users and images, and write the configuration files of Tempest and stestr."""
    people = list(people_of(chosen.workers))
    has_linux = has_reachable_guests(chosen)
    with connect(cloud.folder) as connection:
        make_people(connection, people)
        if chosen.networks:
            networks = networks_of(connection)
        else:
            networks = NO_NETWORKS
            announce_networks(connection, f"http://127.0.0.1:{cloud.ports[0]}/network")
        image, other = two_images(connection, linux_image() if has_linux else None)
    (work / "accounts.yaml").write_text(yaml.safe_dump([person.as_account() for person in people]))
    clouds = yaml.safe_load((cloud.folder / "clouds.yaml").read_text(encoding="utf-8"))["clouds"]
    admin = clouds["kilonova"]["auth"]
    template = Template((HERE / "tempest.conf.template").read_text(encoding="utf-8").split("\n", 1)[1])
    (work / "etc" / "tempest.conf").write_text(
        template.substitute(
            work=work.absolute(),
            identity=cloud.identity,
            region=_REGION,
            admin=admin["username"],
            password=admin["password"],
            project=admin["project_name"],
            image=image,
            image_alt=other,
            flavor=FLAVORS[0].id,
            flavor_alt=FLAVORS[1].id,
            hosts=1 if has_linux else _HOSTS,
            timeout=chosen.timeout,
            stable_rescue=str(chosen.hypervisor == "libvirt").lower(),
            simulated=str(chosen.hypervisor == "simulated").lower(),
            ssh=str(has_linux).lower(),
            **networks,
        )
    )
    (package,) = VENV.glob("lib/python3*/site-packages/tempest")
    (work / ".stestr.conf").write_text(
        f"[DEFAULT]\ntest_path = {package}/test_discover\ntop_dir = {package.parent}\ngroup_regex = ([^\\.]*\\.)*\n"
    )


def _run_suite(work: Path, patterns: Sequence[str], workers: int) -> Mapping[str, Outcome]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("OS_", "PYTHON"))}
    environment = {
        **kept,
        "PATH": f"{VENV / 'bin'}:{kept['PATH']}",
        "TEMPEST_CONFIG_DIR": str((work / "etc").absolute()),
        "TEMPEST_CONFIG": "tempest.conf",
        "OS_TEST_TIMEOUT": "600",
        "PYTHONWARNINGS": "ignore",
    }
    (work / "include.txt").write_text("\n".join(patterns) + "\n")
    shutil.rmtree(work / ".stestr", ignore_errors=True)
    run = ("stestr", "run", "--concurrency", str(workers), "--include-list", "include.txt")
    for command in (("stestr", "init"), run):
        subprocess.run(command, cwd=work, env=environment, check=False)
    raw = subprocess.run(("stestr", "last", "--subunit"), cwd=work, env=environment, capture_output=True, check=False)
    reader = (str(VENV / "bin" / "python"), str(HERE / "read_results.py"))
    read = subprocess.run(reader, input=raw.stdout, env=environment, capture_output=True, check=True)
    return {_without_tags(name): Outcome(**each) for name, each in json.loads(read.stdout).items()}


def _without_tags(name: str) -> str:
    return name.partition("[")[0]


def report(found: Mapping[str, Outcome], wanted: Sequence[str] | None, seconds: float) -> int:
    """Print the failed and skipped tests with reasons, and the counts. Returns the exit code."""
    names = sorted(found) if wanted is None else wanted
    passed = [name for name in names if name in found and found[name].status in _PASSED]
    skipped = [name for name in names if name in found and found[name].status == "skip"]
    failed = [name for name in names if name not in {*passed, *skipped}]
    # An error in setUpClass is a result of its own; the tests of that class have no results.
    broken = [name for name in found if name not in names and found[name].status not in {*_PASSED, "skip"}]
    for name in (*broken, *failed, *skipped):
        print(f"\n{'SKIPPED' if name in skipped else 'FAILED'} {name}")
        for line in _reason(found.get(name)):
            print(f"    {line}")
    print(f"\n{len(passed)} passed, {len(failed) + len(broken)} failed, {len(skipped)} skipped, in {seconds:.0f} s")
    wrong = failed or broken or (skipped and wanted is not None)
    return 1 if wrong or not passed else 0


def _reason(outcome: Outcome | None) -> Iterator[str]:
    if outcome is None:
        yield "did not run"
        return
    yield from [line for line in outcome.why.splitlines() if line.strip()][-_SHOWN_LINES:]


if __name__ == "__main__":
    sys.exit(main())
