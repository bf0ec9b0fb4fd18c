# SPDX-License-Identifier: Apache-2.0
"""How tests share the machine when `make test` runs them in several processes, with pytest-xdist.

All tests of a module run in one process, in their order, so what a module starts is started once. Modules that need a
Keystone, which takes seconds to start, run in one process, too, and so do those that need a RabbitMQ. Modules with slow
tests begin first, so that no process is left with a long one when the others have nothing to do. A test that is marked
``alone`` runs when no other does: it measures time, and would blame the code for what its neighbours need.
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

#: What a module imports that needs one: something that takes long to start, and that a process starts once.
_NEEDED = {
    "Keystone": re.compile(r"^from (api\.access_world|support\.identity) import", re.MULTILINE),
    "RabbitMQ": re.compile(r"^from support\.(broker|rabbit_ends) import", re.MULTILINE),
}
#: New objects after which the garbage collector looks for cycles, as in `kilonova api`.
_COLLECT_AFTER = 20_000
#: What a process may gain before it looks for what stays without need, and what it had when it last did.
_MUCH_MIB = 200
_RESIDENT = pytest.StashKey[int]()
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


class ByModule(LoadScopeScheduling):
    """Gives each process one module after the other."""

    def __init__(self, config: pytest.Config, log: Any) -> None:
        config.option.loadscopereorder = False  # by the number of tests, which says little of how long they take
        super().__init__(config, log)

    def _split_scope(self, nodeid: str) -> str:
        return unit_of(self.config.rootpath, nodeid.partition("::")[0])


@cache
def unit_of(root: Path, module: str) -> str:
    """Return what the tests of a module go together with: what they need, or nothing but the module itself."""
    text = (root / module).read_text(encoding="utf-8")
    return next((needed for needed, imports in _NEEDED.items() if imports.search(text)), module)


class Turns:
    """Who may run now, agreed upon by locks on two files that all processes of a run have.

    Whoever wants to begin passes the ``gate`` first. A test that runs alone keeps it shut until the others that run
    have ended, so that it need not wait for a moment at which none happens to run.
    """

    def __init__(self, run: str) -> None:
        self.files = [Path(tempfile.gettempdir(), f"kilonova-tests-{run}-{name}") for name in ("gate", "running")]

    @contextmanager
    def taken(self, *, alone: bool) -> Iterator[None]:
        """Wait until the test may run, and let others know while it does."""
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
    """Name a test the same in each process, also when one of its values is a fresh uuid."""
    return _UUID.sub("uuid", val) if isinstance(val, str) and _UUID.search(val) else None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if _run(config):
        slow = {item.path for item in items if item.get_closest_marker("slow")}
        items.sort(key=lambda item: item.path not in slow)


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Generator[None, Any, Any]:
    """Keep the garbage collector from walking over all modules and tests while they come, and ever after."""
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
        if is_last and _resident_mib() > item.session.stash[_RESIDENT] + _MUCH_MIB:  # a big mirror freezes all there is
            gc.unfreeze()
            item.session.stash[_RESIDENT] = _freeze()


def pytest_configure_node(node: WorkerController) -> None:
    node.config.add_cleanup(Turns(node.workerinput["testrunuid"]).forget)


def _freeze() -> int:
    """Free what nobody needs, have the garbage collector leave the rest alone, and return what that takes of memory."""
    gc.collect()
    gc.freeze()
    return _resident_mib()


def _resident_mib() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize() // 2**20


def _run(config: pytest.Config) -> str:
    """Return the name of the run that this process shares with others; empty when it runs all tests itself."""
    return str(getattr(config, "workerinput", {}).get("testrunuid", ""))
