# SPDX-License-Identifier: Apache-2.0
"""Operators in flavor extra specs: ``>= 4``, ``<in> aes``, ``<or> a <or> b``, or a plain value."""

import operator
from collections.abc import Callable, Mapping, Sequence

_NUMBERS: Mapping[str, Callable[[float, float], bool]] = {
    "=": operator.ge,  # "=" means "at least", as in Nova
    "==": operator.eq,
    "!=": operator.ne,
    ">=": operator.ge,
    "<=": operator.le,
}
_TEXTS: Mapping[str, Callable[[str, str], bool]] = {
    "s==": operator.eq,
    "s!=": operator.ne,
    "s<": operator.lt,
    "s<=": operator.le,
    "s>": operator.gt,
    "s>=": operator.ge,
}
_SETS = frozenset({"<in>", "<all-in>", "<or>"})
OPERATORS = frozenset({*_NUMBERS, *_TEXTS, *_SETS})

Value = str | Sequence[str] | None


def match(value: Value, requirement: str) -> bool:
    """Tell whether ``value`` satisfies ``requirement``.

    A requirement that does not start with an operator must equal the value exactly, including blanks. ``<`` and ``>``
    are not operators. A requirement that cannot be evaluated (a numeric operator on a text, an operator without
    operand) is not met; Nova raises an exception in this case and fails the whole request.

    Source: spec SCHEDULER §2.
    """
    words = requirement.split()
    if not words or words[0] not in OPERATORS:
        return value == requirement
    name, *operands = words
    if value is None or not operands:
        return False
    if name in _NUMBERS:
        return _compare_numbers(value, name, operands[0])
    if name in _TEXTS:
        return isinstance(value, str) and _TEXTS[name](value, operands[0])
    if name == "<in>":
        return operands[0] in value
    if name == "<all-in>":
        return all(operand in value for operand in operands)
    return value in operands[::2]  # <or> a <or> b: the words between the operands are not checked


def numeric(requirement: str) -> tuple[Callable[[float, float], bool], float] | None:
    """Return (comparison, operand), or None if ``requirement`` is not numeric. The comparison accepts arrays."""
    words = requirement.split()
    if len(words) < 2 or words[0] not in _NUMBERS:
        return None
    try:
        return _NUMBERS[words[0]], float(words[1])
    except ValueError:
        return None


def _compare_numbers(value: str | Sequence[str], name: str, operand: str) -> bool:
    if not isinstance(value, str):
        return False
    try:
        return _NUMBERS[name](float(value), float(operand))
    except ValueError:
        return False
