# SPDX-License-Identifier: Apache-2.0
"""Report of the settings on flavors, images, aggregates and requests that no rule reads.

In: the settings, and the ``reads`` of the rules (:mod:`kilonova.scheduler.reads`). Out: each name without effect, and
the reason. The report is for operators; scheduling decisions do not use it.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from enum import StrEnum
from typing import Any

from kilonova.model.aggregate import ZONE_KEY, Aggregate
from kilonova.model.flavor import Flavor
from kilonova.model.image import Image
from kilonova.model.image_properties import KNOWN_PROPERTIES, NUMBERED_PROPERTIES, present_name
from kilonova.records import dataclass
from kilonova.scheduler.devices.pci_request import PCI_READS
from kilonova.scheduler.engine.engine import Engine
from kilonova.scheduler.filters import FILTERS
from kilonova.scheduler.filters.aggregate_instance_extra_specs import SCOPE
from kilonova.scheduler.filters.compute_capabilities import host_facts
from kilonova.scheduler.host_table import HostTable
from kilonova.scheduler.isolation_rules import reads_of_rules
from kilonova.scheduler.reads import Elsewhere, InUse, Keys, Reads, is_unscoped, names, reads_of
from kilonova.scheduler.request_filters import SWITCHES, configured_request_filters
from kilonova.scheduler.resources import RESOURCE_READS
from kilonova.scheduler.rule import rule_name
from kilonova.scheduler.settings import SchedulerConfig
from kilonova.scheduler.weighers import WEIGHERS

_READ_BY_FILTERS_ALONE = frozenset({"img_hv_type", "img_hv_requested_version"})
#: Names that are read in every configuration: by the Placement query, availability zones, device requests and
#: hypervisors. The list includes informational image properties, which other services write.
_ALWAYS = (
    RESOURCE_READS,
    PCI_READS,
    Reads(metadata=names(ZONE_KEY, "description"), hints=Keys(names=frozenset({"group"}), prefixes=("_nova",))),
    Reads(extra_specs=names("accel:device_profile")),
    Reads(properties=Keys(names=KNOWN_PROPERTIES - _READ_BY_FILTERS_ALONE, prefixes=NUMBERED_PROPERTIES)),
    Reads(
        properties=Keys(
            names=frozenset(
                {
                    *("description", "base_image_ref", "boot_roles", "clean_attempts", "direct_url", "image_location"),
                    *("image_state", "image_type", "instance_uuid", "owner_id", "owner_project_name"),
                    *("owner_user_name", "signature_verified", "user_id"),
                }
            ),
            prefixes=("cinder_", "os_glance_", "owner_specified."),
        )
    ),
)


class Kind(StrEnum):
    """The kind of object that has a setting. The value is the name of the corresponding field of :class:`Reads`."""

    FLAVOR = "extra_specs"
    IMAGE = "properties"
    AGGREGATE = "metadata"
    REQUEST = "hints"


_SAYS = {Kind.FLAVOR: "asks", Kind.IMAGE: "has", Kind.AGGREGATE: "has", Kind.REQUEST: "gives the hint"}


@dataclass(frozen=True, slots=True)
class Unread:
    """A setting that no enabled rule reads. ``rules``: disabled rules that would read it. ``why``: the reason."""

    kind: Kind
    id: str
    name: str
    key: str
    value: str
    rules: tuple[str, ...]
    why: str

    def __str__(self) -> str:
        what, name = self.kind.name.lower(), self.name or self.id
        return f"{f'{what} {name}' if name else f'the {what}'} {_SAYS[self.kind]} {self.key}; {self.why}"


@dataclass(frozen=True, slots=True)
class Reader:
    """A rule and the names that it reads. ``reads``: None if the rule may read any name.

    ``idle``: the reason why the rule is disabled; empty for an enabled rule.
    """

    name: str
    reads: Reads | None
    idle: str = ""


@dataclass(frozen=True, slots=True)
class Readers:
    """All readers of settings in a cloud.

    ``always``: names that are read regardless of the enabled rules. ``in_use``: names that flavors,
    images, aggregates and hosts use. ``complete``: True if ``in_use`` covers all flavors and images of the cloud. If
    False, a rule that reads a name only together with flavors or images is assumed to read it.
    """

    rules: tuple[Reader, ...]
    always: tuple[Reads, ...]
    in_use: InUse = field(default_factory=dict)
    complete: bool = False

    @property
    def may_read_anything(self) -> tuple[str, ...]:
        """The enabled rules without declared ``reads``. If there is such a rule, it may read any setting."""
        return tuple(rule.name for rule in self.rules if rule.reads is None and not rule.idle)


def readers_of(
    engine: Engine,
    config: SchedulerConfig,
    hosts: HostTable,
    *,
    driver: str | None = None,
    others: Iterable[Reads] = (),
) -> Readers:
    """Return the readers of settings: the rules of ``engine``, and the built-in rules that ``config`` does not enable.

    ``driver``: the name of a third-party scheduler driver. ``others``: the names that other components read,
    such as hypervisors.
    """
    enabled = [*engine.request_filters, *engine.filters, *engine.weighers]
    present = {rule_name(rule) for rule in enabled}
    rules = [Reader(rule_name(rule), reads_of(rule)) for rule in enabled]
    if driver is not None:
        rules.append(Reader(driver, None))
    rules += [each for each in _built_in(config) if each.name not in present]
    return Readers(tuple(rules), (*_ALWAYS, *others, reads_of_rules(hosts.aggregates.aggregates)))


def _built_in(config: SchedulerConfig) -> Iterator[Reader]:
    """Yield all built-in rules as disabled readers. Their ``idle`` is the reason, as a text for users."""
    for name, cls in (*FILTERS.items(), *WEIGHERS.items()):
        rule = cls.configured(config) if hasattr(cls, "configured") else cls()
        yield Reader(name, reads_of(rule), f"{name} is not enabled")
    switched_on: dict[str, Any] = dict.fromkeys(SWITCHES.values(), True)
    everything_on = replace(config, **switched_on)
    for rule in configured_request_filters(everything_on):
        name = rule_name(rule)
        yield Reader(name, reads_of(rule), f"{SWITCHES.get(name, name)} is off")


def with_names_in_use(
    readers: Readers, hosts: HostTable, flavors: Iterable[Flavor], images: Iterable[Image], *, complete: bool
) -> Readers:
    """Return ``readers`` with ``in_use`` filled in: the names in use on flavors, images, aggregates and hosts."""
    scope = f"{SCOPE}:"
    asked = (
        key.removeprefix(scope)
        for each in flavors
        for key in each.extra_specs
        if is_unscoped(key) or key.startswith(scope)
    )
    in_use: InUse = {
        Elsewhere.EXTRA_SPECS: frozenset(asked),
        Elsewhere.IMAGE_PROPERTIES: frozenset(
            name for each in images for key in each.properties for name in (key, present_name(key))
        ),
        Elsewhere.METADATA: frozenset(key for each in hosts.aggregates.aggregates for key in each.metadata),
        Elsewhere.HOST_FACTS: host_facts(hosts),
    }
    return replace(readers, in_use=in_use, complete=complete)


def unread(
    readers: Readers,
    *,
    flavors: Iterable[Flavor] = (),
    images: Iterable[Image] = (),
    aggregates: Iterable[Aggregate] = (),
    hints: Mapping[str, Sequence[str]] | None = None,
) -> tuple[Unread, ...]:
    """Return the settings that no enabled rule reads; an empty tuple if an enabled rule may read any setting."""
    if readers.may_read_anything:
        return ()
    found: list[Unread] = []
    for flavor in flavors:
        found += _unread(readers, Kind.FLAVOR, flavor.flavor_id, flavor.name, flavor.extra_specs)
    for image in images:
        found += _unread(readers, Kind.IMAGE, image.id, image.name, image.properties)
    for aggregate in aggregates:
        found += _unread(readers, Kind.AGGREGATE, aggregate.uuid, aggregate.name, aggregate.metadata)
    texts = {key: ", ".join(values) for key, values in (hints or {}).items()}
    found += _unread(readers, Kind.REQUEST, "", "", texts)
    return tuple(found)


def _unread(readers: Readers, kind: Kind, id_: str, name: str, written: Mapping[str, Any]) -> Iterator[Unread]:
    for key, value in written.items():
        spellings = tuple(dict.fromkeys((key, present_name(key)))) if kind is Kind.IMAGE else (key,)
        if not _is_read(readers, kind, spellings):
            rules = [each for each in readers.rules if each.idle and _would_read(readers, each, kind, spellings)]
            why = " and ".join(each.idle for each in rules) or _nobody(readers, kind, spellings)
            yield Unread(kind, id_, name, key, str(value), tuple(each.name for each in rules), why)


def _is_read(readers: Readers, kind: Kind, spellings: Sequence[str]) -> bool:
    enabled = (each.reads for each in readers.rules if not each.idle and each.reads is not None)
    for reads in (*readers.always, *enabled):
        keys = _keys(reads, kind)
        for key in spellings:
            if keys.always_has(key):
                return True
            for place in keys.places_of(key):
                is_known = readers.complete or place in {Elsewhere.METADATA, Elsewhere.HOST_FACTS}
                if not is_known or key in readers.in_use.get(place, ()):
                    return True
    return False


def _would_read(readers: Readers, rule: Reader, kind: Kind, spellings: Sequence[str]) -> bool:
    keys = None if rule.reads is None else _keys(rule.reads, kind)
    return keys is not None and any(keys.has(key, readers.in_use) for key in spellings)


def _nobody(readers: Readers, kind: Kind, spellings: Sequence[str]) -> str:
    """Return why a name has no effect, as a text for users. No rule reads the name, be the rule enabled or disabled."""
    places = [
        place
        for each in readers.rules
        if not each.idle and each.reads is not None
        for key in spellings
        for place in _keys(each.reads, kind).places_of(key)
        if place is not Elsewhere.HOST_FACTS  # most extra specs do not refer to host attributes
    ]
    idle = " and ".join(dict.fromkeys(place.value for place in places))
    return f"nothing reads it: {idle}" if idle else "nothing reads it"


def _keys(reads: Reads, kind: Kind) -> Keys:
    keys: Keys = getattr(reads, kind.value)
    return keys
