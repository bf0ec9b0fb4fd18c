# SPDX-License-Identifier: Apache-2.0
"""Private libvirtd: separate from the system's, the same node after each start, and outlived by its guests."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4
from xml.etree import ElementTree as ET

import libvirt
import pytest

import kilonova
from kilonova.bundled_services.libvirtd import Libvirtd
from kilonova.bundled_services.settings import LOG_BYTES
from kilonova.errors import ConfigurationError
from support.libvirt_node import LibvirtNode
from support.waiting import wait_until

_GUEST = """\
<domain type='qemu'><name>{name}</name><memory unit='MiB'>32</memory>
<os><type arch='x86_64' machine='pc'>hvm</type></os>
<devices><channel type='unix'><target type='virtio' name='org.qemu.guest_agent.0'/></channel></devices></domain>"""
_STARTS_A_GUEST = """\
import sys, libvirt
from pathlib import Path
from support.libvirt_node import LibvirtNode
node = LibvirtNode()
node.start()
libvirt.open(node.uri).createXML(sys.argv[1])
print(node.folder, *node.guests().values(), node.pid, flush=True)
sys.stdin.read()
"""
#: Script for an unprivileged user, who can read only the standard library and the packages copied beside it.
_STARTS_ONE = """\
import json, subprocess, sys
from pathlib import Path
from kilonova.bundled_services.libvirtd import Libvirtd
def virsh(*words):
    return subprocess.run(["virsh", "-c", node.uri, *words], check=True, capture_output=True, text=True).stdout
folder = Path(sys.argv[1], "with", "a", "path", "too", "long", "for", "the", "sockets", "that", "libvirt", "makes")
node = Libvirtd(folder, guests_end_with_parent=True)
node.start()
node.wait()
Path(sys.argv[1], "guest.xml").write_text(sys.argv[2])
virsh("define", f"{sys.argv[1]}/guest.xml")
virsh("start", "guest")
seen = [node.uri, node.guests()]
node.kill()
seen.append(node.guests())
node.start()
node.wait()
seen.append(virsh("domstate", "guest").strip())
node.remove()
print(json.dumps([*seen, node.guests(), folder.exists()]))
"""


@contextlib.contextmanager
def started(node: Libvirtd) -> Iterator[Libvirtd]:
    try:
        node.start()
        node.wait()
        yield node
    finally:
        node.remove()


def guest_of(node: Libvirtd, name: str | None = None) -> tuple[str, int]:
    """Start a persistent domain. Returns its name and its pid."""
    name = name or f"guest-{uuid4()}"
    connection = libvirt.open(node.uri)
    connection.defineXML(_GUEST.format(name=name)).create()
    connection.close()
    return name, node.guests()[name]


def remove(node: Libvirtd, name: str) -> None:
    connection = libvirt.open(node.uri)
    domain = connection.lookupByName(name)
    with contextlib.suppress(libvirt.libvirtError):
        domain.destroy()
    domain.undefine()
    connection.close()


def identity(node: Libvirtd) -> str | None:
    return ET.fromstring(libvirt.open(node.uri).getCapabilities()).findtext("host/uuid")


def state(node: Libvirtd, name: str) -> int:
    connection = libvirt.open(node.uri)
    try:
        return int(connection.lookupByName(name).state()[0])
    finally:
        connection.close()


def is_alive(pid: int) -> bool:
    """Return whether a process runs; a zombie does not."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


@pytest.mark.parametrize("end", ["kill", "stop"])
def test_a_libvirtd_that_starts_again_is_the_same_node_with_the_guests_of_before(
    libvirt_node: LibvirtNode, end: str
) -> None:
    name, pid = guest_of(libvirt_node)
    before = identity(libvirt_node)
    getattr(libvirt_node, end)()
    assert libvirt_node.ended()
    assert not libvirt_node.answers()
    assert libvirt_node.guests()[name] == pid
    libvirt_node.start()
    assert identity(libvirt_node) == before
    assert state(libvirt_node, name) == libvirt.VIR_DOMAIN_RUNNING
    assert libvirt_node.guests()[name] == pid
    remove(libvirt_node, name)
    wait_until(lambda: name not in libvirt_node.guests(), "the former guest to end")


def test_a_guest_that_was_ended_behind_its_back_is_found_shut_off(libvirt_node: LibvirtNode) -> None:
    name, pid = guest_of(libvirt_node)
    libvirt_node.stop()
    libvirt_node.end_guests()
    assert not libvirt_node.guests()
    assert not is_alive(pid)
    libvirt_node.start()
    wait_until(
        lambda: state(libvirt_node, name) == libvirt.VIR_DOMAIN_SHUTOFF, "libvirtd to notice the end of the guest"
    )
    remove(libvirt_node, name)


def test_a_process_that_has_the_id_of_an_ended_guest_by_now_is_left_alone(libvirt_node: LibvirtNode) -> None:
    name, pid = guest_of(libvirt_node, "instance-0000beef")
    libvirt_node.stop()
    libvirt_node.end_guests()
    note = libvirt_node.folder / "run" / "qemu" / f"{name}.xml"
    with subprocess.Popen(["sleep", "60"]) as other:
        note.write_text(note.read_text().replace(f"pid='{pid}'", f"pid='{other.pid}'"))
        libvirt_node.start()
        assert state(libvirt_node, name) == libvirt.VIR_DOMAIN_SHUTOFF
        assert other.poll() is None
        left = [path for place in ("run", "lib") for path in (libvirt_node.folder / place).rglob(f"*{name}*")]
        assert left == []
        other.kill()
    remove(libvirt_node, name)


def test_logs_of_guests_that_are_gone_go_with_the_next_start(libvirt_node: LibvirtNode) -> None:
    gone, stays = guest_of(libvirt_node)[0], guest_of(libvirt_node)[0]
    remove(libvirt_node, gone)
    logs = libvirt_node.folder / "log"
    assert {gone, stays} <= {log.stem for log in (logs / "qemu").iterdir()}
    libvirt_node.stop()
    with libvirt_node.log.open("ab") as log:
        log.truncate(LOG_BYTES + 1)
    libvirt_node.start()
    names = {log.stem for log in (logs / "qemu").iterdir()}
    assert stays in names
    assert gone not in names
    assert (logs / "libvirtd.log.1").stat().st_size == LOG_BYTES + 1
    assert not libvirt_node.log.exists() or libvirt_node.log.stat().st_size < LOG_BYTES
    remove(libvirt_node, stays)


def test_two_on_one_machine_know_nothing_of_each_other(libvirt_node: LibvirtNode, tmp_path: Path) -> None:
    name, pid = guest_of(libvirt_node, "instance-00000001")
    with started(Libvirtd(tmp_path / "second", "node2")) as second:
        assert identity(second) != identity(libvirt_node)
        assert libvirt.open(second.uri).listAllDomains() == []
        assert guest_of(second, name)[1] != pid
        second.end_guests()
        assert not second.guests()
        assert libvirt_node.guests() == {name: pid}
    assert not (tmp_path / "second").exists()
    remove(libvirt_node, name)


@pytest.mark.parametrize("part", ["a" * 90, "a" * 200, "two words"])
def test_a_folder_may_have_any_path(tmp_path: Path, part: str) -> None:
    folder = tmp_path / part / "libvirt"
    with started(Libvirtd(folder)) as node:
        assert len(node.socket) <= 107
        name, pid = guest_of(node)
        assert node.guests() == {name: pid}
        way = Path(node.socket).parents[1]
    assert not folder.exists()
    assert not way.is_symlink()


def test_it_is_nobody_elses_business(libvirt_node: LibvirtNode) -> None:
    assert libvirt_node.folder.stat().st_mode & 0o077 == 0
    assert Path(libvirt_node.socket).stat().st_mode & 0o077 == 0


def test_a_folder_that_qemu_may_not_enter_is_refused(tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    os.chown(tmp_path, 65534, 65534)
    with pytest.raises(ConfigurationError, match=f"cannot enter {tmp_path}"):
        Libvirtd(tmp_path / "libvirt").start()


def test_the_account_of_the_systems_libvirtd_is_not_needed(tmp_path: Path) -> None:
    """The account belongs to a package that would also start a system libvirtd."""
    hide = ""
    for name in ("passwd", "group"):
        lines = Path("/etc", name).read_text().splitlines(keepends=True)
        (tmp_path / name).write_text("".join(line for line in lines if not line.startswith("libvirt")))
        hide += f"mount --bind {tmp_path / name} /etc/{name} && "
    own_mounts, hide = (["-m"], hide) if os.geteuid() == 0 else ([], "")
    command = ["unshare", *own_mounts, "sh", "-c", f'{hide} ! getent passwd libvirt-qemu && exec "$@"', "sh"]
    done = subprocess.run(
        [*command, sys.executable, "-c", _STARTS_ONE, str(tmp_path), _GUEST.format(name="guest")],
        cwd="/",
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)[3] == "running"


def test_somebody_who_is_not_root_has_a_session(place_for_nobody: Path) -> None:
    source = Path(kilonova.__file__).parent
    for name in ("__init__.py", "errors.py", "records.py", "bundled_services"):
        copy = shutil.copytree if (source / name).is_dir() else shutil.copy
        copy(source / name, place_for_nobody / "kilonova" / name)
    python = sys.executable if _is_open_to_all(Path(sys.executable).resolve()) else "/usr/bin/python3"
    account = {"user": 65534, "group": 65534, "extra_groups": []} if os.geteuid() == 0 else {}
    done = subprocess.run(
        [python, "-c", _STARTS_ONE, str(place_for_nobody / "own"), _GUEST.format(name="guest")],
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(place_for_nobody)},
        cwd="/",
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        **account,
    )
    assert done.returncode == 0, done.stderr
    uri, running, survived, found, left, there = json.loads(done.stdout)
    assert uri.startswith("qemu+unix:///session?socket=")
    assert list(running) == ["guest"]
    assert survived == running
    assert (found, left, there) == ("running", {}, False)


@pytest.fixture
def place_for_nobody() -> Iterator[Path]:
    """World-readable folder (``tmp_path`` is not), with a subfolder owned by the user ``nobody``."""
    before = os.umask(0o022)
    with tempfile.TemporaryDirectory(prefix="kn-open-") as name:
        place = Path(name)
        place.chmod(0o755)
        (place / "kilonova").mkdir()
        (place / "own").mkdir()
        if os.geteuid() == 0:
            os.chown(place / "own", 65534, 65534)
        yield place
    os.umask(before)


def _is_open_to_all(file: Path) -> bool:
    return all(each.stat().st_mode & 1 for each in (file, *file.parents))


def test_libvirtd_and_guests_of_a_test_that_is_killed_end(tmp_path: Path) -> None:
    tests = Path(__file__).parents[1]
    with subprocess.Popen(
        [sys.executable, "-c", _STARTS_A_GUEST, _GUEST.format(name="left-alone")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(tests), "TMPDIR": str(tmp_path)},
    ) as test:
        assert test.stdout is not None
        folder, *processes = test.stdout.readline().split()
        assert len(processes) == 2
        assert all(map(is_alive, map(int, processes)))
        test.send_signal(signal.SIGKILL)
    wait_until(lambda: not any(map(is_alive, map(int, processes))), "libvirtd and the guest to end", at_most_s=20)
    wait_until(lambda: not _of(Path(folder)), "their files to be removed", at_most_s=20)


def _of(folder: Path) -> list[str]:
    return [entry.name for entry in os.scandir("/proc") if entry.name.isdecimal() and _names(entry, str(folder))]


def _names(process: "os.DirEntry[str]", folder: str) -> bool:
    with contextlib.suppress(OSError):
        return folder.encode() in Path(process.path, "cmdline").read_bytes()
    return False


def test_an_emulated_guest_starts_after_few_questions(tmp_path: Path) -> None:
    with started(Libvirtd(tmp_path / "libvirt", emulates=True, guests_end_with_parent=True)) as node:
        name, _ = guest_of(node)
        asked = ["virsh", "-c", node.uri, "qemu-monitor-command", name, '{"execute": "query-name"}']
        told = json.loads(subprocess.run(asked, check=True, capture_output=True).stdout)
        remove(node, name)
        assert int(told["id"].removeprefix("libvirt-")) < 100
