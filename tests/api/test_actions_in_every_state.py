# SPDX-License-Identifier: Apache-2.0
"""Every action of a server that there is, asked for in every state by everybody, of both projects.

What is right follows from the table of who may do what (``access_table``) and the table of states
(``model/transitions``): an action is held to both by being registered. Servers get their states from the test, nothing
runs by itself, and nothing waits: the bus is the test's own.
"""

import itertools
import sqlite3
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from oslo_config import cfg

from api.access_table import ROUTES, Access
from kilonova.api.backend import Backend
from kilonova.api.compute.servers.actions import ACTIONS
from kilonova.cli.wiring.apis import application_of, policy_of
from kilonova.config.api import ApiSettings
from kilonova.config.database import DatabaseSettings
from kilonova.config.settings import Settings
from kilonova.db import flavors
from kilonova.images.source import FixedImages
from kilonova.model.instance import TaskState, VmState
from kilonova.model.transitions import TRANSITIONS, Transition
from support.api_client import Answer, Client
from support.cell import BIGGER, IMAGE, SMALL, Cell, host, new_cell
from support.folder_images import FolderImages
from support.samples import IS_WHOLE

#: In the name of every host, so that a tenant who is told one is told this.
SECRET = "wisteria"
STATES = tuple(sorted(set(VmState) - {VmState.DELETED}))
#: Callers of both projects, by their role. Each role implies those before it, as in Keystone.
CALLERS = ("reader", "member", "manager", "admin")
#: Of the other project those who may do most there: the others may no more than these.
ASKED_BY = (*((role, "wonder") for role in CALLERS), ("manager", "elsewhere"), ("admin", "elsewhere"))
#: Bodies with which an action really begins, where those of the table of access lead nowhere.
BODIES: Mapping[str, Any] = {
    "resize": {"resize": {"flavorRef": BIGGER.flavor_id}},
    "rebuild": {"rebuild": {"imageRef": IMAGE.id}},
    "evacuate": {"evacuate": {}},
    "createImage": {"createImage": {"name": "copy"}},
    "createBackup": {"createBackup": {"name": "copy", "backup_type": "daily", "rotation": 1}},
}
#: Further forms of an action, each with a row of its own in the table of states.
FORMS: Mapping[str, tuple[str, Any]] = {"hard-reboot": ("reboot", {"reboot": {"type": "HARD"}})}
#: What asks the host itself, and waits for its answer, which nobody gives here.
ASKS_HOSTS = {"os-getConsoleOutput", "os-getVNCConsole"}
#: Consoles that are switched off, or are not there any more: any state is as good as another.
UNAVAILABLE = {"os-getRDPConsole", "os-getSPICEConsole", "os-getSerialConsole"}
#: What answers 410 to everybody.
GONE = {"resetNetwork"}
#: The answers of an action that begins, or that says what else it lacks.
BEGINS = frozenset({200, 202, 204, 400, 410, 501})


@dataclass(frozen=True)
class Form:
    """One way to ask for an action. ``kind``: its row in the table of states, None for one that any state allows."""

    name: str
    action: str
    body: Any
    kind: str | None
    access: Access

    @property
    def transition(self) -> Transition | None:
        return None if self.kind is None else TRANSITIONS[self.kind]


def forms() -> Iterator[Form]:
    kinds = {transition.name: kind for kind, transition in reversed(TRANSITIONS.items())}
    for action in sorted(set(ACTIONS) - GONE):
        access = ROUTES[f"compute POST /v2.1/servers/{{server_id}}/action {action}"]
        kind = kinds.get(action) or kinds.get(action.removeprefix("os-"))
        yield Form(action, action, BODIES.get(action, access.body), kind, access)
        for name, (other, body) in FORMS.items():
            if other == action:
                yield Form(name, action, body, name, access)


ALL = tuple(forms())


@dataclass
class World:
    """A cell behind its API with a server of the project ``wonder``. ``watcher``: sees whether anything was written."""

    cell: Cell
    app: Any
    uuid: str
    watcher: sqlite3.Connection
    clients: dict[tuple[str, str], Client] = field(default_factory=dict)

    def client(self, role: str, project: str, form: Form) -> Client:
        key = role, project
        if key not in self.clients:
            roles = CALLERS[: CALLERS.index(role) + 1]
            self.clients[key] = Client(self.app, f"{role}:{project}", "2.104", {"X-Roles": ",".join(roles)})
        until = ACTIONS[form.action].until
        return self.clients[key] if until is None else self.clients[key].at(str(until))

    def ask(self, form: Form, role: str, project: str, uuid: str = "") -> Answer:
        answer = self.client(role, project, form).post(f"/servers/{uuid or self.uuid}/action", form.body)
        if role != "admin":
            assert SECRET not in answer.raw.decode() + repr(answer.headers), (form.name, role, answer.raw)
        return answer

    def put(self, vm_state: VmState, task: TaskState | None, *, locked_by: str | None = None, uuid: str = "") -> None:
        """Give a server a state, whatever was begun with it before."""
        values = (vm_state.value, task and task.value, locked_by, uuid or self.uuid)
        self.cell.bus.close()
        with self.watcher:
            self.watcher.execute("DELETE FROM workflows")
            self.watcher.execute("DELETE FROM server_migrations")
            self.watcher.execute("UPDATE instances SET vm_state=?, task_state=?, locked_by=? WHERE uuid=?", values)

    def state(self) -> tuple[VmState, TaskState | None]:
        wanted = "SELECT vm_state, task_state FROM instances WHERE uuid=?"
        vm_state, task = self.watcher.execute(wanted, [self.uuid]).fetchone()
        return VmState(vm_state), None if task is None else TaskState(task)

    def writes(self) -> int:
        """Return a number that is another one after every transaction."""
        return int(self.watcher.execute("PRAGMA data_version").fetchone()[0])


class Images(FixedImages):
    """The images of users, and those that become some."""

    def __init__(self, stored: FolderImages) -> None:
        super().__init__([IMAGE])
        self.create = stored.create


@pytest.fixture(scope="module")
def world(sqlite_template: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    big = {"vcpus": 400, "memory_mib": 400_000, "disk_gib": 4_000}
    hosts = (host(f"{SECRET}-one", **big), host(f"{SECRET}-two", **big))
    folder = tmp_path_factory.mktemp("states")
    stored = FolderImages(folder / "images")
    stored.add(IMAGE.id, b"what disks are made of")
    cell = new_cell(sqlite_template, folder, *hosts, images=stored)
    cell.database.write(lambda tx: [flavors.create(tx, each) for each in (SMALL, BIGGER)])
    conf = cfg.ConfigOpts()
    conf([], project="kilonova", default_config_files=[], default_config_dirs=[])
    settings = Settings(DatabaseSettings(str(cell.database.url)), api=ApiSettings("noauth2"), conf=conf)
    backend = Backend(
        settings=settings,
        database=cell.database,
        mirror=cell.mirror,
        policy=policy_of(conf),
        conductor=cell.conductor,
        images=Images(stored),
    )
    watcher = sqlite3.connect(cell.folder / "kilonova.db")
    watcher.execute("PRAGMA synchronous = OFF")
    yield World(cell, application_of(settings, backend), new_server(cell), watcher)
    watcher.close()
    cell.bus.close()
    cell.database.close()


def new_server(cell: Cell) -> str:
    (uuid,) = cell.boot()
    cell.work_off()
    return uuid


def right(form: Form, vm_state: VmState, task: TaskState | None, *, locked: bool, role: str) -> frozenset[int]:
    """Return what somebody who may ask is answered."""
    transition = form.transition
    if transition is None:
        return BEGINS | {409} if locked else BEGINS
    if locked and transition.unlocked and role != "admin":
        return frozenset({409})
    allowed = vm_state in transition.states and task in transition.tasks
    return BEGINS if allowed else frozenset({409})


def check(world: World, form: Form, vm_state: VmState, task: TaskState | None, role: str, project: str) -> None:
    """Ask once, in a state that the server has already; what is refused has written nothing."""
    before = world.writes()
    answer = world.ask(form, role, project)
    if project != "wonder" and role != "admin":
        expected = frozenset({404})
    elif role not in form.access.home:
        expected = frozenset({403})
    else:
        expected = right(form, vm_state, task, locked=False, role=role)
    assert answer.status in expected, (form.name, vm_state, task, role, project, answer.raw)
    if answer.status in {403, 404, 409}:
        assert world.writes() == before, (form.name, vm_state, task, role, project, answer.raw)
    elif answer.status < 400:
        world.put(vm_state, task)
    assert world.state() == (vm_state, task), (form.name, vm_state, task, role, project, answer.raw)


def tasks_of(vm_state: VmState) -> tuple[TaskState, ...]:
    """Return the tasks that are tried in a state: all of them, or those that some action allows and some of the others.

    Which of the others depends on the state, so that each has its turn.
    """
    known = tuple(TaskState)
    if IS_WHOLE:
        return known
    special = {task for each in TRANSITIONS.values() if len(each.tasks) < len(known) for task in each.tasks if task}
    others = [task for task in known if task not in special]
    first = STATES.index(vm_state) * 3
    return (sorted(special)[first % len(special)], *(others[(first + step) % len(others)] for step in range(2)))


def test_every_action_says_from_which_states_it_may_begin() -> None:
    free = {"lock", "unlock", "os-resetState", "injectNetworkInfo", *ASKS_HOSTS, *UNAVAILABLE}
    free |= {name for name in ACTIONS if name.endswith(("SecurityGroup", "FixedIp", "FloatingIp"))}
    assert {form.action for form in ALL if form.kind is None} <= free
    assert {form.action for form in ALL} | GONE == set(ACTIONS)


@pytest.mark.parametrize("vm_state", STATES)
def test_who_may_do_what_in_a_state(world: World, vm_state: VmState) -> None:
    world.put(vm_state, None)
    for form in ALL:
        for role, project in ASKED_BY:
            if form.action not in ASKS_HOSTS or role not in form.access.home:
                check(world, form, vm_state, None, role, project)


@pytest.mark.parametrize("vm_state", STATES)
def test_what_else_is_under_way(world: World, vm_state: VmState) -> None:
    for task in tasks_of(vm_state):
        world.put(vm_state, task)
        for form in ALL:
            if form.action not in ASKS_HOSTS:
                check(world, form, vm_state, task, "admin", "wonder")


@pytest.mark.parametrize("locked_by", ["owner", "admin"])
def test_a_lock_stops_the_project_and_no_administrator(world: World, locked_by: str) -> None:
    for form in ALL:
        if form.transition is None or form.action in ASKS_HOSTS:
            continue
        vm_state = min(form.transition.states)
        for role in sorted(form.access.home):
            world.put(vm_state, None, locked_by=locked_by)
            status = world.ask(form, role, "wonder").status
            assert status in right(form, vm_state, None, locked=True, role=role), (form.name, role, status)
    world.put(VmState.ACTIVE, None)


@pytest.mark.parametrize("form", [form for form in ALL if form.action not in ASKS_HOSTS], ids=lambda form: form.name)
def test_what_is_told_of_it_afterwards_names_no_host(world: World, form: Form) -> None:
    """An action runs to its end, well or not: the server is in a state that its guest knows nothing of, or has none."""
    role = min(form.access.home, key=CALLERS.index)
    states = STATES if form.transition is None else sorted(form.transition.states & {*STATES})
    for vm_state, has_guest in itertools.product(states[:1], (True, False)):
        uuid = new_server(world.cell)
        if not has_guest:
            world.cell.drivers[world.cell.instance(uuid).host or ""].destroy(uuid)
        world.put(vm_state, None, uuid=uuid)
        answer = world.ask(form, role, "wonder", uuid)
        assert answer.status in BEGINS, answer.raw
        look_around(world, uuid)  # while it is under way
        world.cell.work_off()
        look_around(world, uuid)
        world.put(VmState.ACTIVE, None)


def look_around(world: World, uuid: str) -> None:
    """Read what a tenant may read of a server, with all that was done to it."""
    member = world.client("manager", "wonder", ALL[0]).at("2.104")
    paths = [f"/servers/{uuid}", "/servers/detail", f"/servers/{uuid}/migrations", "/os-migrations"]
    actions = member.get(f"/servers/{uuid}/os-instance-actions").body
    asked = [action["request_id"] for action in actions.get("instanceActions", ())]
    paths += [f"/servers/{uuid}/os-instance-actions/{request_id}" for request_id in asked]
    for path in paths:
        answer = member.get(path)
        assert answer.status in {200, 404}, (path, answer.raw)
        assert SECRET not in answer.raw.decode(), (path, answer.raw)
