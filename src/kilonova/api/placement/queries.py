# SPDX-License-Identifier: Apache-2.0
"""Parsers of Placement's query parameters for resources, traits, aggregates, provider trees and request groups."""

import re
from collections.abc import Sequence, Sized
from dataclasses import field

from kilonova.api.microversion import Version
from kilonova.api.placement.requests import BAD_VALUE, DUPLICATE_KEY, MISSING_VALUE
from kilonova.api.placement.schemas.validation import is_uuid_like
from kilonova.api.query_string import Query
from kilonova.errors import InvalidRequest
from kilonova.placement.candidate_query import CandidateQuery, Group
from kilonova.records import dataclass

FORBIDDEN_TRAITS = Version(1, 22)
MANY_MEMBER_OF = Version(1, 24)
NESTED = Version(1, 29)
FORBIDDEN_AGGREGATES = Version(1, 32)
NAMED_GROUPS = Version(1, 33)
SAME_SUBTREE = Version(1, 36)
ANY_TRAITS = Version(1, 39)

_NUMBERED = re.compile(r"(resources|required|member_of|in_tree)([1-9][0-9]*)?")
_NAMED = re.compile(r"(resources|required|member_of|in_tree)([a-zA-Z0-9_-]{1,64})?")
_SEVERAL = "in:"
#: Larger requested amounts are replaced by this number. No inventory can have that many units.
_BEYOND = 2**53
#: Limits of one query: number of request groups, of resource classes in a group, and of conditions in a parameter.
MOST_GROUPS = 128
MOST_CLASSES = 256
MOST_CONDITIONS = 512


@dataclass(frozen=True, slots=True)
class Names:
    """Requested traits or aggregates. ``required``: sets of names; providers must have at least one of each set."""

    required: tuple[frozenset[str], ...] = ()
    forbidden: frozenset[str] = frozenset()


def read_resources(text: str) -> dict[str, int]:
    """Parse resource amounts such as ``VCPU:2,MEMORY_MB:1024``. Raises: InvalidRequest."""
    form = (
        "Badly formed resources parameter. Expected resources query string parameter in form: "
        "?resources=VCPU:2,MEMORY_MB:1024."
    )
    if not text.strip():
        raise InvalidRequest(f"{form} Got: empty string.")
    amounts: dict[str, int] = {}
    for item in text.split(","):
        name, *amount = item.split(":")
        if len(amount) != 1:
            raise InvalidRequest(f"{form} Got: {item}.")
        try:
            value = int(amount[0][:400])
        except ValueError:
            raise InvalidRequest(
                f"Requested resource {name} expected positive integer amount. Got: {amount[0]}."
            ) from None
        if value < 1:
            raise InvalidRequest(f"Requested resource {name} requires amount >= 1. Got: {value}.")
        amounts[name] = min(value, _BEYOND)
    _require_few(amounts, MOST_CLASSES, "resources", "resource classes")
    return amounts


def _require_few(things: Sized, most: int, parameter: str, what: str) -> None:
    if len(things) > most:
        raise InvalidRequest(
            f"Invalid query string parameters: '{parameter}' names {len(things)} {what}; at most {most} are allowed.",
            placement_code=BAD_VALUE,
        )


def read_traits(values: Sequence[str], version: Version) -> Names:
    """Parse all ``required`` parameters of a request group. Raises: InvalidRequest.

    Formats: ``A,B``, since 1.22 also ``A,!B``, since 1.39 also ``in:A,B``. Before 1.39, of several ``required``
    parameters only the last one is used.
    """
    required: list[frozenset[str]] = []
    forbidden: set[str] = set()
    for text in values if version >= ANY_TRAITS else values[-1:]:
        if text.startswith(_SEVERAL):
            required.append(_read_any_trait(text, version))
            continue
        names = [name.strip() for name in text.split(",")]
        refused = {name.lstrip("!") for name in names if name.startswith("!")}
        form = "HW_CPU_X86_VMX,!CUSTOM_MAGIC" if version >= FORBIDDEN_TRAITS else "HW_CPU_X86_VMX,CUSTOM_MAGIC"
        expected = f"Invalid query string parameters: Expected 'required' parameter value of the form: {form}."
        if "" in names or "" in refused:
            raise InvalidRequest(f"{expected} Got an empty trait in: {text}")
        if refused and version < FORBIDDEN_TRAITS:
            raise InvalidRequest(f"{expected} Got: {text}")
        required += [frozenset({name}) for name in names if not name.startswith("!")]
        forbidden |= refused
    distinct = dict.fromkeys(required)
    _require_few(distinct, MOST_CONDITIONS, "required", "conditions")
    return Names(tuple(distinct), frozenset(forbidden))


def _read_any_trait(text: str, version: Version) -> frozenset[str]:
    form = "in:HW_CPU_X86_VMX,CUSTOM_MAGIC"
    if version < ANY_TRAITS:
        raise InvalidRequest(
            f"Invalid query string parameters: The format '{form}' only supported since microversion {ANY_TRAITS}. "
            f"Got: {text}"
        )
    names = frozenset(name.strip() for name in text.removeprefix(_SEVERAL).split(","))
    if "" in names:
        raise InvalidRequest(
            f"Invalid query string parameters: Expected 'required' parameter value of the form: {form}. "
            f"Got an empty trait in: {text}"
        )
    if any(name.startswith("!") for name in names):
        raise InvalidRequest(
            f"Invalid query string parameters: The format '{form}' does not support forbidden traits. Got: {text}"
        )
    return names


def read_member_of(values: Sequence[str], version: Version, suffix: str = "") -> Names:
    """Parse all ``member_of`` parameters of a request group. Raises: InvalidRequest.

    Formats: ``U`` and ``in:U,V``, since 1.32 also ``!U`` and ``!in:U,V``, where U and V are uuids of aggregates.
    """
    if len(values) > 1 and version < MANY_MEMBER_OF:
        raise InvalidRequest(f"Multiple member_of{suffix} parameters are not supported")
    required: list[frozenset[str]] = []
    forbidden: set[str] = set()
    for text in values:
        negative = text.startswith("!")
        rest = text[1:] if negative else text
        if rest.startswith(_SEVERAL):
            uuids = frozenset(rest.removeprefix(_SEVERAL).split(","))
        elif "," in rest:
            raise InvalidRequest(
                "Multiple values for 'member_of' must be prefixed with the 'in:' or '!in:' keyword using the valid "
                f"microversion. Got: {text}"
            )
        else:
            uuids = frozenset({rest})
        for uuid in sorted(uuids):
            if not is_uuid_like(uuid):
                raise InvalidRequest(
                    "Invalid query string parameters: Expected 'member_of' parameter to contain valid UUID(s). "
                    f"Got: {uuid}"
                )
        if not negative:
            required.append(uuids)
        elif version < FORBIDDEN_AGGREGATES:
            raise InvalidRequest(
                f"Forbidden member_of{suffix} parameters are not supported in the specified microversion"
            )
        else:
            forbidden |= uuids
    distinct = dict.fromkeys(required)
    _require_few(distinct, MOST_CONDITIONS, f"member_of{suffix}", "conditions")
    return Names(tuple(distinct), frozenset(forbidden))


def read_in_tree(text: str) -> str:
    """Return the value of an ``in_tree`` parameter, which is a provider's uuid. Raises: InvalidRequest."""
    uuid = text.strip()
    if not is_uuid_like(uuid):
        raise InvalidRequest(
            f"Invalid query string parameters: Expected 'in_tree' parameter to be a format of uuid. Got: {text}"
        )
    return uuid


# --- candidates ------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Parts:
    resources: dict[str, int] = field(default_factory=dict)
    traits: Names = field(default_factory=Names)
    aggregates: Names = field(default_factory=Names)
    in_tree: str | None = None


def read_candidate_query(query: Query, version: Version, *, maximum: int, breadth_first: bool) -> CandidateQuery:
    """Parse the query of `GET /allocation_candidates`, which has already passed its schema. Raises: InvalidRequest."""
    same_subtrees = _read_same_subtrees(query.get("same_subtree", ()))
    root = _read_root_required(query.get("root_required", ()), version)
    groups = _read_groups(query, version)
    _check_groups(groups, same_subtrees, version)
    policy = query.get("group_policy", ())
    if not policy and sum(bool(suffix) for suffix in groups) > 1:
        raise InvalidRequest(
            'The "group_policy" parameter is required when specifying more than one "resources{N}" parameter.'
        )
    limit = query.get("limit", ())
    return CandidateQuery(
        groups=tuple(
            Group(
                suffix,
                parts.resources,
                parts.traits.required,
                parts.traits.forbidden,
                parts.aggregates.required,
                parts.aggregates.forbidden,
                parts.in_tree,
            )
            for suffix, parts in groups.items()
        ),
        limit=min(int(limit[0][:400]), _BEYOND) if limit else None,
        maximum=maximum,
        isolate=bool(policy) and policy[0] == "isolate",
        same_subtrees=same_subtrees,
        root_required=frozenset(name for names in root.required for name in names),
        root_forbidden=root.forbidden,
        nested=version >= NESTED,
        breadth_first=breadth_first,
    )


def _read_groups(query: Query, version: Version) -> dict[str, _Parts]:
    pattern = _NAMED if version >= NAMED_GROUPS else _NUMBERED
    groups: dict[str, _Parts] = {}
    for name, values in query.items():
        found = pattern.fullmatch(name)
        if found is None:
            continue
        suffix = found[2] or ""
        parts = groups.setdefault(suffix, _Parts())
        match found[1]:
            case "resources":
                for value in values:
                    parts.resources = read_resources(value)
            case "required":
                parts.traits = read_traits(values, version)
            case "member_of":
                parts.aggregates = read_member_of(values, version, suffix)
            case _:
                parts.in_tree = read_in_tree(values[-1])
    _require_few(groups, MOST_GROUPS, "resources", "request groups")
    return groups


def _read_root_required(values: Sequence[str], version: Version) -> Names:
    if len(values) > 1:
        raise InvalidRequest(
            "Query parameter 'root_required' may be specified only once.", placement_code=DUPLICATE_KEY
        )
    # as before 1.39: root_required does not support the format "in:" of later microversions
    root = read_traits(values, min(version, Version(1, 38)))
    both = root.forbidden & {name for names in root.required for name in names}
    if both:
        raise InvalidRequest(
            f"Conflicting required and forbidden traits found in root_required: {', '.join(sorted(both))}",
            placement_code=BAD_VALUE,
        )
    return root


def _read_same_subtrees(values: Sequence[str]) -> tuple[frozenset[str], ...]:
    subtrees = tuple(dict.fromkeys(frozenset(suffix.strip() for suffix in value.split(",")) for value in values))
    _require_few(subtrees, MOST_GROUPS, "same_subtree", "conditions")
    if any("" in suffixes for suffixes in subtrees):
        raise InvalidRequest(
            "Empty string (unsuffixed group) can not be specified in `same_subtree`.", placement_code=BAD_VALUE
        )
    return subtrees


def _check_groups(groups: dict[str, _Parts], same_subtrees: Sequence[frozenset[str]], version: Version) -> None:
    empty = [suffix for suffix, parts in groups.items() if not parts.resources]
    if version >= SAME_SUBTREE:
        _check_empty_groups(groups, empty, frozenset().union(*same_subtrees))
    else:
        _check_orphans(groups)
    if version < FORBIDDEN_TRAITS:
        return
    conflicts = sorted(
        f"required{suffix}: ({', '.join(sorted(names))})"
        for suffix, parts in groups.items()
        for names in parts.traits.required
        if names <= parts.traits.forbidden
    )
    if conflicts:
        raise InvalidRequest(
            f"Conflicting required and forbidden traits found in the following traits keys: {', '.join(conflicts)}"
        )


def _check_empty_groups(groups: dict[str, _Parts], empty: Sequence[str], in_subtrees: frozenset[str]) -> None:
    """Raise InvalidRequest for a request group that has no resources and is not in a ``same_subtree``. Since 1.36."""
    if len(empty) == len(groups):
        raise InvalidRequest(
            "There must be at least one resources or resources[$S] parameter.", placement_code=MISSING_VALUE
        )
    loose = [suffix for suffix in empty if suffix not in in_subtrees]
    if loose:
        raise InvalidRequest(
            "Resourceless suffixed group request should be specified in `same_subtree` query param: "
            f"bad group(s) - {loose}.",
            placement_code=BAD_VALUE,
        )
    unknown = sorted(in_subtrees - groups.keys())
    if unknown:
        raise InvalidRequest(
            f"Real suffixes should be specified in `same_subtree`: {unknown} not found in {list(groups)}.",
            placement_code=BAD_VALUE,
        )


def _check_orphans(groups: dict[str, _Parts]) -> None:
    for prefix, name, orphans in (
        (
            "required",
            "traits",
            [suffix for suffix, parts in groups.items() if parts.traits.required and not parts.resources],
        ),
        (
            "member_of",
            "member_of",
            [
                suffix
                for suffix, parts in groups.items()
                if (parts.aggregates.required or parts.aggregates.forbidden) and not parts.resources
            ],
        ),
    ):
        if orphans:
            keys = ", ".join(f"{prefix}{suffix}" for suffix in orphans)
            raise InvalidRequest(
                f"All {name} parameters must be associated with resources. "
                f"Found the following orphaned {name} keys: {keys}"
            )
    if not groups:
        raise InvalidRequest("At least one request group (`resources` or `resources{$S}`) is required.")
    if not all(parts.resources for parts in groups.values()):
        raise InvalidRequest("All request groups must specify resources.")
