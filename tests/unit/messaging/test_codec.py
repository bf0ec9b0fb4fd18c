# SPDX-License-Identifier: Apache-2.0
import dataclasses
import json
import re
from collections.abc import Mapping
from datetime import datetime
from enum import Enum
from pathlib import Path
from types import MappingProxyType
from typing import Any, get_args, get_origin, get_type_hints

import msgspec
import pytest

from kilonova.errors import AgentTooOld
from kilonova.messaging import codec
from kilonova.messaging.codec import KNOWN, MESSAGES, NEEDS, VERSION, Envelope, Message, decode, encode, require_known
from kilonova.messaging.messages import LiveMigrate, PauseGuest, SpawnGuest, StepId, StepReply, StopGuest
from kilonova.model.config_drive import ConfigDrive
from kilonova.model.instance import GuestSpec
from kilonova.model.local_disk import EphemeralDisk
from kilonova.model.network_info import Vif, VifNetwork

RECORDED = Path(__file__).parents[2] / "fixtures" / "messages"


def a_value_of(kind: Any) -> Any:
    """A value of a type in which nothing is left at its default."""
    origin, arguments = get_origin(kind), get_args(kind)
    if kind == Message:
        return a_value_of(StopGuest)
    if kind in {Any, object}:
        return {"nested": [1, None, "\u00fc"]}
    if origin is tuple:
        return tuple(a_value_of(argument) for argument in arguments if argument is not ...)
    if origin is frozenset:
        return frozenset(a_value_of(argument) for argument in arguments)
    if origin is Mapping:
        key, value = arguments
        return MappingProxyType({a_value_of(key): a_value_of(value)})
    if arguments:  # one of several, None among them
        return a_value_of(next(argument for argument in arguments if argument is not type(None)))
    if dataclasses.is_dataclass(kind):
        hints = get_type_hints(kind)
        return kind(**{field.name: a_value_of(hints[field.name]) for field in dataclasses.fields(kind)})
    if kind is datetime:
        return datetime.fromisoformat("2026-03-29T02:30:00.123456")
    if issubclass(kind, Enum):
        return list(kind)[-1]
    return {str: 'l\u00fctt\n\x00"', bytes: b"\x00\xff", int: 2**53 + 1, float: 0.1, bool: True}[kind]


def test_every_message_has_its_name() -> None:
    assert len(MESSAGES) > 15
    assert MESSAGES["StopGuest"] is StopGuest


@pytest.mark.parametrize("name", MESSAGES)
def test_a_message_comes_out_as_it_went_in(name: str) -> None:
    message = a_value_of(MESSAGES[name])
    back = decode(encode(Envelope(message)))
    assert back.message == message
    assert type(back.message) is MESSAGES[name]


def test_what_the_way_to_the_reader_needs_comes_along() -> None:
    sent = a_value_of(Envelope)
    assert decode(encode(sent)) == dataclasses.replace(sent, version=VERSION)


def recorded(version: int) -> list[bytes]:
    """What releases of a version wrote. It stays as it is; ``record`` adds messages that came later."""
    return (RECORDED / f"{version}.jsonl").read_bytes().splitlines()


def record() -> None:
    """Add the messages that are missing, for this version. Call it from a Python shell in this folder."""
    known = {json.loads(line)["message"] for line in recorded(VERSION)}
    with (RECORDED / f"{VERSION}.jsonl").open("ab") as file:
        for name, kind in MESSAGES.items():
            if name not in known:
                file.write(encode(dataclasses.replace(a_value_of(Envelope), message=a_value_of(kind))) + b"\n")


def missing(written: Any, read: Any) -> list[str]:
    """The parts of what was written that are not in what was read."""
    if isinstance(written, list) and isinstance(read, list) and len(written) == len(read):
        return [each for one, other in zip(written, read, strict=True) for each in missing(one, other)]
    if not isinstance(written, dict) or not isinstance(read, dict):
        return [] if written == read else [f"{written!r} was read as {read!r}"]
    return [f"{name}: {each}" for name, value in written.items() for each in missing(value, read.get(name))]


#: What later releases can do without: message → fields. An agent that is not told to remove a guest keeps it.
GIVEN_UP = {"Orphans": {"guests", "unknown"}}


@pytest.mark.parametrize("version", range(1, VERSION + 1))
def test_what_earlier_releases_wrote_is_understood(version: int) -> None:
    assert recorded(version)
    for line in recorded(version):
        written, envelope = json.loads(line), decode(line)
        for field in GIVEN_UP.get(written["message"], ()):
            written["body"].pop(field, None)
        again = json.loads(encode(envelope))
        assert not missing(written, {**again, "version": envelope.version, "needs": written.get("needs")})


def test_every_message_is_recorded() -> None:
    assert {json.loads(line)["message"] for line in recorded(VERSION)} == {*MESSAGES}, "record() adds those"


def test_what_each_earlier_version_knows_is_what_was_recorded_of_it() -> None:
    assert set(KNOWN) == set(range(NEEDS, VERSION))
    for version, names in KNOWN.items():
        assert {json.loads(line)["message"] for line in recorded(version)} == names


def test_the_table_of_versions_has_a_row_for_each() -> None:
    rows = re.findall(r"^ (\d+) {4}", str(codec.__doc__), re.MULTILINE)
    assert [int(row) for row in rows] == [*range(1, VERSION + 1)]


def test_nobody_is_sent_what_its_version_does_not_know() -> None:
    pause, stop = PauseGuest(StepId("w", "act", 1), "a"), StopGuest(StepId("w", "act", 1), "a")
    for version in (VERSION, VERSION + 1):
        require_known(pause, version, "node1")
    require_known(stop, 3, "node1")
    for version in (1, 2, 3):
        with pytest.raises(AgentTooOld, match=f"host node1 has message version {version}, .* PauseGuest"):
            require_known(pause, version, "node1")
    guest = GuestSpec(uuid="a", name="vm", hostname="vm", vcpus=1, memory_mib=1, root_gib=1)
    require_known(SpawnGuest(StepId("w", "spawn", 1), guest), 3, "node1")
    with_drive = SpawnGuest(StepId("w", "spawn", 1), dataclasses.replace(guest, config_drive=ConfigDrive("vm")))
    require_known(with_drive, VERSION, "node1")
    with pytest.raises(AgentTooOld, match="a guest with a config drive"):
        require_known(with_drive, 3, "node1")
    network = VifNetwork(id="net", label="private")
    vif = Vif(port_id="port", mac="fa:16:3e:00:00:01", network=network)
    with_interface = SpawnGuest(StepId("w", "spawn", 1), dataclasses.replace(guest, vifs=(vif,)))
    require_known(with_interface, VERSION, "node1")
    with pytest.raises(AgentTooOld, match="a guest with network interfaces"):
        require_known(with_interface, 8, "node1")
    disks = (EphemeralDisk(1, "ext4"),)
    with_disks = SpawnGuest(StepId("w", "spawn", 1), dataclasses.replace(guest, requested_ephemeral=disks))
    require_known(with_disks, VERSION, "node1")
    with pytest.raises(AgentTooOld, match="a guest with requested local disks"):
        require_known(with_disks, 8, "node1")


def test_a_message_of_a_newer_release_is_read_as_far_as_it_is_known() -> None:
    message = LiveMigrate(StepId("w", "copy", 1), "a", "node2")
    sent = json.loads(encode(Envelope(message)))
    sent["body"]["bandwidth"] = {"limit": 3}
    sent["priority"] = 1
    sent["version"] = VERSION + 1
    assert sent["needs"] == NEEDS <= VERSION
    assert decode(json.dumps(sent).encode()) == Envelope(message, version=VERSION + 1)


def test_a_message_of_an_older_release_gets_the_defaults() -> None:
    sent = json.loads(encode(Envelope(StepReply(StepId("w", "copy", 1), "node1", "a", "No.", aborted=True))))
    del sent["body"]["aborted"]
    assert decode(json.dumps(sent).encode()).message == StepReply(StepId("w", "copy", 1), "node1", "a", "No.")


@pytest.mark.parametrize(
    ("changed", "wrong"),
    [
        ({"needs": VERSION + 1}, f"Unsupported message version {VERSION}; the latest supported version is {VERSION}"),
        ({"version": 99, "needs": None}, f"Unsupported message version 99; the latest supported version is {VERSION}"),
        ({"version": "2"}, r"\$\.version"),
        ({"message": "Nonsense"}, "There is no message 'Nonsense'"),
        ({"body": {}}, "missing required field `step`"),
        (
            {"body": {"step": {"workflow": "w", "step": "s", "attempt": "1"}, "instance_uuid": "a"}},
            r"\$\.step\.attempt",
        ),
    ],
)
def test_what_cannot_be_understood_is_refused(changed: dict[str, Any], wrong: str) -> None:
    sent = {**json.loads(encode(Envelope(StopGuest(StepId("w", "s", 1), "a")))), **changed}
    with pytest.raises(msgspec.DecodeError, match=wrong):
        decode(json.dumps(sent).encode())


@pytest.mark.parametrize("part", [b"a-session", b"StepReply", b"the-host"])
def test_bytes_that_are_no_text_are_refused(part: bytes) -> None:
    """The readers pass over what is refused so, and nothing else."""
    reply = StepReply(StepId("flow", "act", 1), "the-host", "server")
    written = encode(Envelope(reply, session="a-session"))
    assert part in written
    with pytest.raises(msgspec.DecodeError):
        decode(written.replace(part, b"\xc3\xff" + part))
