# SPDX-License-Identifier: Apache-2.0
"""The distinct states of hosts' cells and devices, so that rules look at each of them once.

Many hosts have equal cells, and two hosts with other CPUs taken are still alike to every rule: a *state* is what one
host has, a *shape* is all states that differ only in which CPUs are which, and one of them stands for all. Both only
ever grow, so every snapshot of the host table may share them; whoever keeps them starts afresh when most are stale.

Axes: S states, P shapes.
"""

from collections.abc import Callable, Hashable
from dataclasses import dataclass, fields
from functools import lru_cache, reduce
from operator import or_
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from kilonova.model.host_devices import NOTHING, HostDevices
from kilonova.model.numa import HostCell

T = TypeVar("T", bound=np.generic)
IntArray = NDArray[np.int64]
_UNKNOWN, _NO, _YES = -1, 0, 1
_KEPT_QUESTIONS = 64


@dataclass(frozen=True, slots=True)
class Summaries:
    """What every shape has left at most, for conditions on whole columns. Units: cells, CPUs, MiB, devices.

    ``cell_*``: the most that any one cell has. ``devices``: free ones of all pools. Shapes: (P,) each.
    """

    cells: IntArray
    free_pcpus: IntArray
    cell_free_pcpus: IntArray
    cell_cpus: IntArray
    cell_memory_mib: IntArray
    devices: IntArray


_FIELDS = len(fields(Summaries))


class DeviceStates:
    """Numbers for states. Number 0 is the host that tells of nothing. Reads need no lock; :meth:`number` does."""

    def __init__(self) -> None:
        self._states: list[HostDevices] = []
        self._numbers: dict[HostDevices, int] = {}
        self._shapes: list[HostDevices] = []  # a state of each
        self._shape_numbers: dict[Hashable, int] = {}
        self._shape_of: NDArray[np.int32] = np.zeros(16, dtype=np.int32)
        self._summaries: NDArray[np.int64] = np.zeros((16, _FIELDS), dtype=np.int64)
        self._verdicts: dict[Hashable, NDArray[np.int8]] = {}
        self.number(NOTHING)

    def copy(self) -> "DeviceStates":
        """Return the same states under the same numbers, for somebody who numbers others without the lock."""
        made = DeviceStates()
        made._states, made._numbers = self._states.copy(), self._numbers.copy()
        made._shapes, made._shape_numbers = self._shapes.copy(), self._shape_numbers.copy()
        made._shape_of, made._summaries = self._shape_of.copy(), self._summaries.copy()
        return made

    def __len__(self) -> int:
        return len(self._states)

    def __getitem__(self, number: int) -> HostDevices:
        return self._states[number]

    def number(self, devices: HostDevices) -> int:
        """Return the number of a state, a new one the first time."""
        number = self._numbers.get(devices)
        if number is None:
            number = len(self._states)
            self._shape_of = _with_room(self._shape_of, number)
            self._shape_of[number] = self._shape(devices)
            self._states.append(devices)
            self._numbers[devices] = number
        return number

    def shapes(self, states: NDArray[np.int32]) -> NDArray[np.int32]:
        """Return the shape of each state. Shapes: (H,) → (H,)."""
        return self._shape_of[states]

    def summaries(self) -> Summaries:
        """Return the summaries of all shapes, of the same ones in every column."""
        return Summaries(*self._summaries[: len(self._shapes)].T)

    def verdicts(
        self,
        question: Hashable,
        shapes: NDArray[np.int32],
        possible: NDArray[np.bool_],
        judge: Callable[[HostDevices], bool],
    ) -> NDArray[np.bool_]:
        """Return what ``judge`` says of the shapes of some hosts, no for those that are not ``possible``.

        Each shape is judged once. An answer is kept as long as its ``question`` is among the newest.
        Shapes: ``shapes`` (N,), ``possible`` (P,) → (N,).
        """
        among = possible & (np.bincount(shapes, minlength=len(possible)) > 0)
        known = self._verdicts.pop(question, None)
        if known is None:
            known = np.full(len(among), _UNKNOWN, dtype=np.int8)
            while len(self._verdicts) >= _KEPT_QUESTIONS:
                self._verdicts.pop(next(iter(self._verdicts)), None)
        elif len(known) < len(among):
            known = np.concatenate([known, np.full(len(among) - len(known), _UNKNOWN, dtype=np.int8)])
        self._verdicts[question] = known
        answers = known[: len(among)]
        for number in np.flatnonzero(among & (answers == _UNKNOWN)).tolist():
            answers[number] = _YES if judge(self._shapes[number]) else _NO
        passed: NDArray[np.bool_] = among & (answers == _YES)
        return passed[shapes]

    def _shape(self, devices: HostDevices) -> int:
        shape = shape_of(devices)
        number = self._shape_numbers.get(shape)
        if number is None:
            number = len(self._shapes)
            self._summaries = _with_room(self._summaries, number)
            self._summaries[number] = _summary(devices)
            self._shapes.append(devices)
            self._shape_numbers[shape] = number
        return number


def shape_of(devices: HostDevices) -> Hashable:
    """Return what rules can tell of a host: equal for two that only differ in which CPUs are which."""
    return tuple(map(_cell_shape, devices.cells)), devices.pools


def _cell_shape(cell: HostCell) -> Hashable:
    dedicated, taken, shared = _mask(cell.pcpuset), _mask(cell.pinned), _mask(cell.cpuset)
    free, both = dedicated & ~taken, dedicated & shared
    named, cores = _cores(cell.siblings)
    kinds = sorted(
        [
            (
                core.bit_count(),
                (core & free).bit_count(),
                (core & dedicated).bit_count(),
                (core & shared).bit_count(),
                (core & both).bit_count(),
            )
            for core in cores
        ]
    )
    alone = (dedicated | shared) & ~named  # each a core of its own
    singles = [(alone & each).bit_count() for each in (free, free & both, dedicated, shared, both)]
    used = cell.used_cpus, cell.used_memory_mib
    return cell.id, cell.socket, cell.memory_mib, cell.pages, used, tuple(kinds), tuple(singles)


def _mask(cpus: frozenset[int]) -> int:
    mask = 0
    for cpu in cpus:
        mask |= 1 << cpu
    return mask


@lru_cache(maxsize=256)
def _cores(siblings: tuple[frozenset[int], ...]) -> tuple[int, tuple[int, ...]]:
    """Return the CPUs of all cores together, and of each core, as masks."""
    masks = tuple(_mask(core) for core in siblings)
    return reduce(or_, masks, 0), masks


def _summary(shape: HostDevices) -> tuple[int, ...]:
    """Return one row of :class:`Summaries`."""
    free = [len(cell.free_pcpus) for cell in shape.cells]
    return (
        len(shape.cells),
        sum(free),
        max(free, default=0),
        max((len(cell.cpuset) for cell in shape.cells), default=0),
        max(map(_memory_mib, shape.cells), default=0),
        sum(pool.free for pool in shape.pools),
    )


def _memory_mib(cell: HostCell) -> int:
    return max([cell.memory_mib, *(pages.total * pages.size_kib // 1024 for pages in cell.pages)])


def _with_room(array: NDArray[T], index: int) -> NDArray[T]:
    """Return an array with a row ``index``; rows that were there already stay as they are for who reads them."""
    if index < len(array):
        return array
    return np.concatenate([array, np.zeros_like(array)])
