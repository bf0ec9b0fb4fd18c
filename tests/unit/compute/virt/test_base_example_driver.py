# SPDX-License-Identifier: Apache-2.0
"""The driver of docs/writing-a-driver.md does what every driver does, and what else is asked of it is refused."""

import hashlib
import inspect
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from kilonova.compute.virt.abilities import PROTOCOLS
from kilonova.messaging.messages import (
    AbandonMove,
    ActivateMigrated,
    AgentMessage,
    AskCachedImages,
    AskConsoleAddress,
    AskConsoleOutput,
    AskDiagnostics,
    AttachInterface,
    CacheImages,
    ConfirmMove,
    DetachInterface,
    DiscardSnapshot,
    FaultOf,
    FinishMove,
    LiveMigrate,
    MoveAway,
    PauseGuest,
    PrepareLiveMigration,
    QuestionRefused,
    RebootGuest,
    RebuildGuest,
    RefusedBecause,
    RemoveGuest,
    RescueGuest,
    ResumeGuest,
    ReturnHome,
    SetAdminPassword,
    SnapshotGuest,
    SpawnGuest,
    SuspendGuest,
    TriggerCrashDump,
    UnpauseGuest,
    UnrescueGuest,
    UploadSnapshot,
)
from kilonova.model.ability import Ability
from kilonova.model.console import ConsoleProtocol
from kilonova.model.found_guest import Removal, RemovalReason
from kilonova.model.image_data import CacheResult, ImageData
from kilonova.model.instance import PowerState
from support.control import NewControl, new_controls
from support.driver_contracts.core import CoreContract
from support.driver_contracts.interfaces import VIF
from support.driver_places import Place
from support.one_host import OneHost, guest, new_step
from support.smallest_driver import EXAMPLES, FileDriver, setup_in

PAGE = EXAMPLES.parent / "docs" / "writing-a-driver.md"
RUNNING, SHUTDOWN = PowerState.RUNNING, PowerState.SHUTDOWN
IMAGE = ImageData("image", url="http://control")


# --- the page ---------------------------------------------------------------------------------------------------------


def test_the_page_shows_the_driver_as_it_is() -> None:
    _, begin, rest = PAGE.read_text().partition("```python\n# SPDX-License-Identifier")
    assert f"# SPDX-License-Identifier{rest.partition('```')[0]}" == (EXAMPLES / "file_driver.py").read_text(), begin


def test_the_page_names_every_ability_and_its_methods() -> None:
    rows = [line.split("|") for line in PAGE.read_text().splitlines() if line.startswith("| `")]
    named = {row[1].strip(" `"): {name.strip(" `") for name in row[2].split(",")} for row in rows}
    assert named == {
        ability.value: {name for name, _ in inspect.getmembers(can, inspect.isfunction) if not name.startswith("_")}
        for ability, can in PROTOCOLS.items()
    }


# --- what every driver does -------------------------------------------------------------------------------------------


class FilePlace(Place):
    """A host whose guests are entries of a file."""

    host = "node1"

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        data = b"data" * 1000
        file = folder / "plain"
        file.write_bytes(data)
        digest = hashlib.sha256(data).hexdigest()
        self.image = ImageData("plain", file.as_uri(), size_bytes=4000, hash_algo="sha256", hash_value=digest)
        self.stubborn = replace(self.image, image_id="stubborn")
        self.damaged = replace(self.image, image_id="damaged", location="", url="http://control")
        self.agent_dies()

    def agent_dies(self) -> None:
        self.driver = FileDriver(setup_in(self._folder, self.host, transfers=self))

    def _guests(self) -> dict[str, Any]:
        file = self._folder / "guests.json"
        return json.loads(file.read_text()) if file.exists() else {}

    def power_fails(self, uuid: str) -> None:
        guests = self._guests()
        guests[uuid]["state"] = SHUTDOWN
        (self._folder / "guests.json").write_text(json.dumps(guests))

    def vanishes(self, uuid: str) -> None:
        guests = self._guests()
        del guests[uuid]
        (self._folder / "guests.json").write_text(json.dumps(guests))

    def left_behind(self, uuid: str) -> list[str]:
        return [uuid] if uuid in self._guests() else []

    def files_with(self, secret: bytes) -> list[str]:
        return [str(file) for file in self._folder.rglob("*") if file.is_file() and secret in file.read_bytes()]

    def uploaded(self, image: ImageData) -> bytes | None:
        del image
        return None

    # --- implements ImageTransfers ------------------------------------------------------------------------------------

    @contextmanager
    def download(self, image: ImageData, start: int, *, verify: bool | str) -> Iterator[Any]:
        del image, verify
        yield start, iter([b"other" * 800])


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return FilePlace(tmp_path)


class TestFileDriver(CoreContract):
    """Every test of what every driver does."""


# --- what its agent refuses -------------------------------------------------------------------------------------------


@pytest.fixture
def host(tmp_path: Path) -> OneHost:
    """A host with a guest ``a`` that runs."""

    def driver(*_: object) -> Any:
        return FileDriver(setup_in(tmp_path))

    one = OneHost(tmp_path, driver=driver)  # type: ignore[arg-type]
    one.do(SpawnGuest(new_step(), guest(ordered_at=datetime(2026, 1, 1))))  # noqa: DTZ001 - as in messages
    return one


@pytest.mark.parametrize(
    ("order", "ability"),
    [
        (RebootGuest(new_step(), "a"), Ability.REBOOT),
        (RebootGuest(new_step(), "a", hard=True), Ability.REBOOT),
        (PauseGuest(new_step(), "a"), Ability.PAUSE),
        (UnpauseGuest(new_step(), "a"), Ability.PAUSE),
        (SuspendGuest(new_step(), "a"), Ability.SUSPEND),
        (ResumeGuest(new_step(), "a"), Ability.SUSPEND),
        (RebuildGuest(new_step(), guest(), power_on=True), Ability.REBUILD),
        (RescueGuest(new_step(), guest(), "image"), Ability.RESCUE),
        (UnrescueGuest(new_step(), "a"), Ability.RESCUE),
        (SetAdminPassword(new_step(), "a", "secret"), Ability.ADMIN_PASSWORD),
        (TriggerCrashDump(new_step(), "a"), Ability.CRASH_DUMP),
        (AttachInterface(new_step(), "a", VIF), Ability.ATTACH_INTERFACE),
        (DetachInterface(new_step(), "a", VIF), Ability.ATTACH_INTERFACE),
        (MoveAway(new_step(), "a", "node1"), Ability.RESIZE_SAME_HOST),
        (MoveAway(new_step(), "a", "node2"), Ability.COLD_MIGRATE),
        (FinishMove(new_step(), guest(), "node1", power_on=True), Ability.RESIZE_SAME_HOST),
        (FinishMove(new_step(), guest(), "node2", power_on=True), Ability.COLD_MIGRATE),
        (PrepareLiveMigration(new_step(), guest(), "node2"), Ability.LIVE_MIGRATE),
        (LiveMigrate(new_step(), "a", "node2"), Ability.LIVE_MIGRATE),
        (ActivateMigrated(new_step(), "a", paused=False), Ability.LIVE_MIGRATE),
        (SnapshotGuest(new_step(), "a", "image"), Ability.SNAPSHOT),
        (UploadSnapshot(new_step(), "a", IMAGE), Ability.SNAPSHOT),
    ],
)
def test_an_order_for_what_it_lacks_is_the_fault_of_the_request(
    host: OneHost, order: AgentMessage, ability: Ability
) -> None:
    reply = host.do(order)
    assert reply.error == f"The hypervisor does not support {ability}."
    assert (reply.fault_of, reply.power_state) == (FaultOf.REQUEST, RUNNING)


@pytest.mark.parametrize(
    "question",
    [
        AskConsoleOutput("a", "q1", "control"),
        AskConsoleAddress("a", "q1", "control", protocol=ConsoleProtocol.VNC),
        AskDiagnostics("a", "q1", "control"),
        AskCachedImages("a", "q1", "control"),
    ],
)
def test_a_question_that_it_cannot_answer_is_refused_as_unsupported(host: OneHost, question: AgentMessage) -> None:
    host.send(question)
    host.bus.run()
    (refusal,) = host.told_of(QuestionRefused)
    assert refusal.because is RefusedBecause.UNSUPPORTED


@pytest.mark.parametrize(
    "order",
    [
        AbandonMove(new_step(), "a"),
        ConfirmMove(new_step(), "a"),
        DiscardSnapshot(new_step(), "a"),
        ReturnHome(new_step(), guest(), power_on=True),
    ],
)
def test_what_takes_back_an_operation_that_it_refused_succeeds(host: OneHost, order: AgentMessage) -> None:
    reply = host.do(order)
    assert (reply.error, reply.power_state) == (None, RUNNING)


def test_the_guest_of_an_evacuated_server_is_stopped_and_may_come_back(host: OneHost) -> None:
    removal = Removal("a", RemovalReason.LEFT, datetime.now(UTC).replace(tzinfo=None), keeps=True)
    assert host.do(RemoveGuest(new_step(), removal)).power_state is SHUTDOWN
    assert host.driver.list_guests() == {"a": SHUTDOWN}
    assert host.do(ReturnHome(new_step(), guest(), power_on=True)).power_state is RUNNING
    assert host.do(RemoveGuest(new_step(), replace(removal, keeps=False))).power_state is PowerState.NOSTATE
    assert (host.do(ReturnHome(new_step(), guest(), power_on=False)).error or "") == "Guest a does not exist."


def test_it_keeps_no_images(host: OneHost) -> None:
    assert host.do(CacheImages(new_step(), (IMAGE,))).images == {"image": CacheResult.UNSUPPORTED}


# --- a cloud with it --------------------------------------------------------------------------------------------------


@pytest.fixture
def new_control(sqlite_template: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[NewControl]:
    monkeypatch.syspath_prepend(str(EXAMPLES))
    with new_controls(sqlite_template, tmp_path) as start:
        yield start


def test_a_server_is_built_stopped_started_and_deleted(new_control: NewControl, tmp_path: Path) -> None:
    control = new_control(
        more=f"[DEFAULT]\ncompute_driver = file_driver.FileDriver\nhost = metal7\ncontrol_serves_host = true\n"
        f"instances_path = {tmp_path / 'instances'}\n"
    )
    server = control.boot(control.admin, availability_zone="nova:metal7", networks="none")
    assert (server["status"], server["OS-EXT-SRV-ATTR:host"]) == ("ACTIVE", "metal7")
    file, path = tmp_path / "instances" / "guests.json", f"/servers/{server['id']}"
    assert set(json.loads(file.read_text())) == {server["id"]}
    for action, status in (("os-stop", "SHUTOFF"), ("os-start", "ACTIVE")):
        assert control.admin.post(f"{path}/action", {action: None}).status == 202
        control.settle()
        assert control.admin.get(path).body["server"]["status"] == status
    assert control.admin.delete(path).status == 204
    control.settle()
    assert json.loads(file.read_text()) == {}
