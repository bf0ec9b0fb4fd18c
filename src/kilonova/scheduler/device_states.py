# SPDX-License-Identifier: Apache-2.0
"""Tables of the distinct states of hosts' NUMA cells and PCI pools, so that rules judge each distinct state only once.

A *state* is the cells and pools of a host with their usage. A *shape* is a class of states that differ only in the ids
of their CPUs; rules judge one state for the whole class. The tables of states and of shapes are append-only, so all
snapshots of the host table share them; the owner of the tables rebuilds them when most states are stale.

Axes: S states, P shapes.
"""

from collections.abc import Callable, Hashable
from dataclasses import fields
from functools import lru_cache, reduce
from operator import or_
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from kilonova.model.host_devices import NOTHING, HostDevices
from kilonova.model.numa import HostCell
from kilonova.records import dataclass

T = TypeVar("T", bound=np.generic)
IntArray = NDArray[np.int64]
_UNKNOWN, _NO, _YES = -1, 0, 1
_KEPT_QUESTIONS = 64


@dataclass(frozen=True, slots=True)
class Summaries:
    """Upper bounds of the free resources of every shape (class of device states). Units: cells, CPUs, MiB, devices.

    ``cell_*``: the largest value of any single cell. ``devices``: free devices of all pools. Shapes: (P,) each.
    """

    cells: IntArray
    free_pcpus: IntArray
    cell_free_pcpus: IntArray
    cell_cpus: IntArray
    cell_memory_mib: IntArray
    devices: IntArray


_FIELDS = len(fields(Summaries))


class DeviceStates:
    """Append-only table of numbered device states. Number 0: the state of a host without NUMA cells and PCI pools.

    Callers of :meth:`number` must hold a lock; readers need none.
    """

    def __init__(self) -> None:
        self._states: list[HostDevices] = []
        self._numbers: dict[HostDevices, int] = {}
        self._shapes: list[HostDevices] = []  # one representative state of each shape
        self._shape_numbers: dict[Hashable, int] = {}
        self._shape_of: NDArray[np.int32] = np.zeros(16, dtype=np.int32)
        self._summaries: NDArray[np.int64] = np.zeros((16, _FIELDS), dtype=np.int64)
        self._verdicts: dict[Hashable, NDArray[np.int8]] = {}
        self.number(NOTHING)

    def copy(self) -> "DeviceStates":
        """Return an independent copy with equal state numbers. A thread can add states to its copy without a lock."""
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
        """Return the number of a device state; a new state gets the next number."""
        number = self._numbers.get(devices)
        if number is None:
            number = len(self._states)
            self._shape_of = _with_room(self._shape_of, number)
            self._shape_of[number] = self._shape(devices)
            self._states.append(devices)
            self._numbers[devices] = number
        return number

    def shapes(self, states: NDArray[np.int32]) -> NDArray[np.int32]:
        """Return, for each device state, the index of its *shape*, the class of equal states. Arrays: (H,) → (H,)."""
        return self._shape_of[states]

    def summaries(self) -> Summaries:
        """Return the summaries of all shapes. All columns have the same length, even if another thread adds shapes."""
        return Summaries(*self._summaries[: len(self._shapes)].T)

    def verdicts(
        self,
        question: Hashable,
        shapes: NDArray[np.int32],
        possible: NDArray[np.bool_],
        judge: Callable[[HostDevices], bool],
    ) -> NDArray[np.bool_]:
        """Return, for each host, the result of ``judge`` for its shape; False if the shape is not ``possible``.

        ``shapes``: the shape number of each host. ``question``: the cache key of ``judge``. Each shape is judged once
        per question; the results of the 64 questions used last are cached.
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
    """Return a key that is equal for hosts whose NUMA cells and PCI pools differ only in the ids of their CPUs."""
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
    alone = (dedicated | shared) & ~named  # each CPU without siblings is a core of its own
    singles = [(alone & each).bit_count() for each in (free, free & both, dedicated, shared, both)]
    used = cell.used_cpus, cell.used_memory_mib, cell.physnets, cell.tunneled
    return cell.id, cell.socket, cell.memory_mib, cell.pages, used, tuple(kinds), tuple(singles)


def _mask(cpus: frozenset[int]) -> int:
    mask = 0
    for cpu in cpus:
        mask |= 1 << cpu
    return mask


@lru_cache(maxsize=256)
def _cores(siblings: tuple[frozenset[int], ...]) -> tuple[int, tuple[int, ...]]:
    """Return two values: the bit mask of the CPUs of all cores together, and the bit mask of each core."""
    masks = tuple(_mask(core) for core in siblings)
    return reduce(or_, masks, 0), masks


def _summary(shape: HostDevices) -> tuple[int, ...]:
    """Return the values of a shape, in the order of the columns of :class:`Summaries`."""
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
    """Return ``array``, or a larger copy if it has no row ``index``. Concurrent readers keep the old array."""
    if index < len(array):
        return array
    return np.concatenate([array, np.zeros_like(array)])
