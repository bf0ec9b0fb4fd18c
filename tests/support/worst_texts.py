# SPDX-License-Identifier: Apache-2.0
"""Worst-case texts for backtracking regular expressions, generated from the pattern, and a CPU time limit.

A pattern is slow where one repetition can be split in several ways. So each repetition of the pattern gets many copies
of what it repeats, after a matching prefix and before an end at which the match must fail.
"""

import re
import signal
import string
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import product
from re import _constants as sre  # type: ignore[attr-defined]
from re import _parser as parser  # type: ignore[attr-defined]
from types import FrameType
from typing import Any

LENGTH = 20_000
MOST = 60
_ALPHABET = 'a0 -,:.A_^=\\"/ \t{$\né' + string.ascii_letters + string.digits + string.punctuation
_ENDS = ("", "!", "\n", " ", "\x00", "a")
_REPEATS = (sre.MAX_REPEAT, sre.MIN_REPEAT, sre.POSSESSIVE_REPEAT)


class TooSlow(AssertionError):
    """The match exceeded its CPU time limit."""


def worst_texts(pattern: str, flags: int = 0) -> list[str]:
    """Return up to :data:`MOST` texts of about :data:`LENGTH` characters, an even selection of all candidates."""
    tree = parser.parse(pattern, flags)
    pumps = {(prefix, piece) for prefix, piece in _pumps(list(tree), "") if piece}
    letters = sorted({letter for _, piece in pumps for letter in piece})[:12]
    pumps |= {("", one + other) for one, other in product(letters, letters) if one != other}
    pumps |= {("", letter) for letter in letters}
    made = sorted((piece, prefix, end) for prefix, piece in pumps for end in _ENDS)
    chosen = made[:: 1 + len(made) // MOST]
    return [prefix + piece * (LENGTH // len(piece)) + end for piece, prefix, end in chosen]


@contextmanager
def cpu_limit(seconds: float, what: object) -> Iterator[None]:
    """Raise TooSlow if the block exceeds the CPU time; this also interrupts a match in ``re``."""

    def stop(_number: int, _frame: FrameType | None) -> None:
        raise TooSlow(f"more than {seconds} s of CPU time: {what}")

    before = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def try_worst(pattern: str, match: Callable[[str], Any], flags: int = 0, *, seconds: float = 0.1) -> None:
    """Match every worst-case text. Raises: TooSlow."""
    for text in worst_texts(pattern, flags):
        with cpu_limit(seconds, f"{pattern!r} on {text[:40]!r}…{text[-10:]!r} ({len(text)})"):
            match(text)


def _pumps(items: list[Any], prefix: str) -> Iterator[tuple[str, str]]:
    for item in items:
        for inner in _inside(item):
            if item[0] in _REPEATS:
                for sample in _samples(inner):
                    yield prefix, sample
            yield from _pumps(inner, prefix)
        prefix += next(iter(_samples([item])), "")


def _inside(item: Any) -> list[list[Any]]:
    operator, value = item
    if operator in _REPEATS:
        return [list(value[2])]
    if operator is sre.SUBPATTERN:
        return [list(value[-1])]
    if operator is sre.BRANCH:
        return [list(branch) for branch in value[1]]
    if operator is sre.ATOMIC_GROUP:
        return [list(value)]
    return []


def _samples(items: list[Any]) -> list[str]:
    """Return a few texts that match the consecutive items of a pattern."""
    found = [""]
    for operator, value in items:
        if operator in _REPEATS:
            pieces = [piece * max(value[0], min(1, value[1])) for piece in _samples(list(value[2]))]
            pieces += [""] if value[0] == 0 else []
        elif operator in {sre.SUBPATTERN, sre.ATOMIC_GROUP}:
            pieces = _samples(list(value[-1] if operator is sre.SUBPATTERN else value))
        elif operator is sre.BRANCH:
            pieces = [piece for branch in value[1] for piece in _samples(list(branch))[:2]]
        elif operator in {sre.LITERAL, sre.NOT_LITERAL, sre.ANY, sre.IN}:
            pieces = _letters(operator, value)
        else:
            pieces = [""]
        found = [before + piece for before in found[:4] for piece in pieces[:6]]
    return found


def _letters(operator: Any, value: Any) -> list[str]:
    if operator is sre.LITERAL:
        return [chr(value)]
    tree = parser.SubPattern(parser.State())
    tree.append((operator, value))
    one = re._compiler.compile(tree)  # type: ignore[attr-defined]
    letters = [letter for letter in dict.fromkeys(_ALPHABET) if one.fullmatch(letter)]
    kinds = {letter: (letter.isdigit(), letter.isalpha(), letter.isspace(), letter.isupper()) for letter in letters}
    first_of_kind = {kinds[letter]: letter for letter in reversed(letters)}
    return list(first_of_kind.values())
