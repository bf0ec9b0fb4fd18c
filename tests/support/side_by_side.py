# SPDX-License-Identifier: Apache-2.0
"""Distribution of tests over processes for `make test` with pytest-xdist.

All tests of a module run in one process, in order, so that expensive fixtures start once. Modules that need a Keystone
share one process, and so do those that need a RabbitMQ, because these take seconds to start, and those that need the
external network of real guests, for which they would otherwise wait. In `make e2e`, modules with the same scenario
share one process and its cloud, the start of which takes eight seconds of processor time. Modules with slow tests
start first, so that no process ends with a long one while the others are idle. A test marked ``alone`` runs when no
other test does: it measures time.
"""

import fcntl
import gc
import re
import resource
import tempfile
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from xdist.scheduler import LoadScopeScheduling
from xdist.workermanage import WorkerController

#: Service that takes long to start, or that a machine has once → pattern of the imports by which a module shows that it
#: needs the service.
_NEEDED = {
    "Keystone": re.compile(r"^from (api\.access_world|support\.identity) import", re.MULTILINE),
    "Neutron": re.compile(r"^from support\.real_neutron import", re.MULTILINE),
    "RabbitMQ": re.compile(r"^from support\.(broker|rabbit_ends) import", re.MULTILINE),
    "external network": re.compile(r"^from support\.external_network import", re.MULTILINE),
}
#: Scenario of the cloud of a module of `make e2e`, and the sign that the cloud has options of its own.
_SCENARIO = re.compile(r'^    scenario: ClassVar = "(.+)"$', re.MULTILINE)
_OPTIONS = "    options: ClassVar = "
#: Number of new objects after which the garbage collector runs, as in `kilonova api`.
_COLLECT_AFTER = 20_000
#: Growth of a process's memory, in MiB, after which garbage is collected; and the memory after the last collection.
_MUCH_MIB = 200
_RESIDENT = pytest.StashKey[int]()
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


class ByModule(LoadScopeScheduling):
    """Gives each process one module after the other."""

    def __init__(self, config: pytest.Config, log: Any) -> None:
        # would sort modules by the number of tests, which says little about their duration
        config.option.loadscopereorder = False
        super().__init__(config, log)

    def _split_scope(self, nodeid: str) -> str:
        return unit_of(self.config.rootpath, nodeid.partition("::")[0])


@cache
def unit_of(root: Path, module: str) -> str:
    """Return the group of a module: the service or the cloud that it needs, or else the module itself."""
    text = (root / module).read_text(encoding="utf-8")
    scenario = _SCENARIO.search(text)
    alone = module if scenario is None or _OPTIONS in text else f"cloud of {scenario[1]}"
    return next((needed for needed, imports in _NEEDED.items() if imports.search(text)), alone)


class Turns:
    """Mutual exclusion of tests marked ``alone``, by locks on two files that all processes of a run share.

    Each test passes the ``gate`` first. A test that runs alone keeps the gate closed until all running tests have
    ended, so that it is not starved by new ones.
    """

    def __init__(self, run: str) -> None:
        self.files = [Path(tempfile.gettempdir(), f"kilonova-tests-{run}-{name}") for name in ("gate", "running")]

    @contextmanager
    def taken(self, *, alone: bool) -> Iterator[None]:
        """Wait until the test may run, and hold the lock while it runs."""
        gate_file, running_file = self.files
        with gate_file.open("w") as gate, running_file.open("w") as running:
            fcntl.flock(gate, fcntl.LOCK_EX)
            fcntl.flock(running, fcntl.LOCK_EX if alone else fcntl.LOCK_SH)
            fcntl.flock(gate, fcntl.LOCK_UN)
            yield

    def forget(self) -> None:
        for file in self.files:
            file.unlink(missing_ok=True)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> ByModule:
    return ByModule(config, log)


def pytest_make_parametrize_id(val: object) -> str | None:
    """Give a test the same id in each process, even if a parameter is a random uuid."""
    return _UUID.sub("uuid", val) if isinstance(val, str) and _UUID.search(val) else None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if _run(config):
        slow = {item.path for item in items if item.get_closest_marker("slow")}
        items.sort(key=lambda item: item.path not in slow)


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Generator[None, Any, Any]:
    """Exclude collected modules and tests from garbage collection, during the collection of tests and after it."""
    gc.disable()
    try:
        return (yield)
    finally:
        session.stash[_RESIDENT] = _freeze()
        gc.set_threshold(_COLLECT_AFTER)
        gc.enable()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> Generator[None, Any, Any]:
    try:
        if run := _run(item.config):
            with Turns(run).taken(alone=item.get_closest_marker("alone") is not None):
                return (yield)
        return (yield)
    finally:
        is_last = nextitem is None or nextitem.path != item.path
        # loading a large mirror calls gc.freeze(), which also keeps garbage
        if is_last and _resident_mib() > item.session.stash[_RESIDENT] + _MUCH_MIB:
            gc.unfreeze()
            item.session.stash[_RESIDENT] = _freeze()


def pytest_configure_node(node: WorkerController) -> None:
    node.config.add_cleanup(Turns(node.workerinput["testrunuid"]).forget)


def _freeze() -> int:
    """Collect garbage, freeze the remaining objects, and return the process's memory in MiB."""
    gc.collect()
    gc.freeze()
    return _resident_mib()


def _resident_mib() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize() // 2**20


def _run(config: pytest.Config) -> str:
    """Return the id of the xdist run; empty without xdist."""
    return str(getattr(config, "workerinput", {}).get("testrunuid", ""))
