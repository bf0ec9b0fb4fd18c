# SPDX-License-Identifier: Apache-2.0
"""Kill points of a process that drives real guests: before every effect on its host.

Effects are libvirt calls that change something, file changes and started programs; long ones are also killed while they
run. They are counted at the border of Python: at libvirt's C module and by audit events. One process counts the
effects; later processes die at one of them.
"""

import os
import sys
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from crash.points import Moment, Watch
from crash.processes import die

_READS = ("Get", "Has", "Is", "List", "Lookup", "XML", "Free", "Ref", "Screenshot", "Memory", "Info", "Block")
_TAKES_A_WHILE = (
    "virDomainCreate",
    "virDomainManagedSave",
    "virDomainDestroy",
    "virDomainBackupBegin",
    "subprocess.Popen",
)
_FILES = frozenset({"os.rename", "os.remove", "os.rmdir", "os.mkdir", "os.truncate", "os.link", "os.symlink"})
_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT
#: Seconds between the start of a long effect and the kill during it.
MEANWHILE_S = 0.06


@dataclass(frozen=True)
class Death:
    """Kill before the ``nth`` effect, or during it."""

    nth: int
    name: str
    meanwhile: bool = False

    def __str__(self) -> str:
        return f"{'during' if self.meanwhile else 'before'} {self.name} ({self.nth + 1})"


class Effects(Watch):
    """Counter of effects below a folder and through libvirt; once ``armed``, it kills the process at the chosen one."""

    def __init__(self, folder: str) -> None:
        super().__init__(armed=False)
        self._below = folder
        self._counting = threading.Lock()
        self.names: list[str] = []
        self.death: Death | None = None
        _watch_libvirt(self)
        sys.addaudithook(self._audit)

    def __call__(self, kind: str, step: str, undoing: bool, moment: Moment) -> None:
        if moment is Moment.WORK_DONE:
            self.note(f"the reply to {step}")

    def note(self, name: str) -> None:
        """Count an effect that is about to happen, and die if it is the chosen one."""
        if not self.armed:
            return
        with self._counting:
            number = len(self.names)
            self.names.append(name)
        if self.death is None or number != self.death.nth:
            return
        if not self.death.meanwhile:
            die()
        timer = threading.Timer(MEANWHILE_S, die)
        timer.daemon = True
        timer.start()

    def deaths(self) -> list[Death]:
        """Return all kills that are possible on the counted run."""
        found = [Death(number, name) for number, name in enumerate(self.names)]
        long = [each for each in found if each.name.startswith(_TAKES_A_WHILE)]
        return found + [Death(each.nth, each.name, meanwhile=True) for each in long]

    def _audit(self, event: str, arguments: tuple[Any, ...]) -> None:
        if not self.armed:
            return
        if event == "subprocess.Popen":
            words = [Path(os.fspath(word)).name for word in arguments[1]]
            self.note(f"a program, {' '.join(words)[-40:]}")
        elif event in _FILES:
            path = os.fsdecode(arguments[0]) if not isinstance(arguments[0], int) else ""
            if path.startswith(self._below) or (path and not path.startswith("/")):  # rmtree uses relative paths
                self.note(f"{event} {_last(path)}")
        elif event == "open" and isinstance(arguments[0], (str, bytes)) and arguments[2] & _WRITES:
            path = os.fsdecode(arguments[0])
            if path.startswith(self._below):
                self.note(f"open {_last(path)}")


def _last(path: str) -> str:
    """Return the name of a guest's file or folder without its random uuid."""
    last = path.rstrip("/").rsplit("/", 1)[-1]
    return last if len(last) < 36 else f"…{last[36:]}"


class _Border:
    """Wrapper of libvirt's C functions."""

    def __init__(self, module: Any, effects: Effects) -> None:
        self._module = module
        self._effects = effects

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._module, name)
        if not name.startswith("virDomain") or name.removeprefix("virDomain").startswith(_READS):
            return found

        def called(*arguments: Any) -> Any:
            self._effects.note(name)
            return found(*arguments)

        return called


def _watch_libvirt(effects: Effects) -> None:
    import libvirt

    names = vars(libvirt)
    names["libvirtmod"] = _Border(names["libvirtmod"], effects)
