# SPDX-License-Identifier: Apache-2.0
"""Parsers of ``[pci] alias`` and of the PCI devices that a flavor requests by alias."""

import json
import re
from collections.abc import Mapping
from functools import cache
from typing import Any

from kilonova.errors import ConfigurationError, InvalidRequest
from kilonova.model.flavor import Flavor
from kilonova.model.image import Image
from kilonova.model.pci import PF, STANDARD, VF, NumaPolicy, PciRequest
from kilonova.model.request_spec import RequestSpec
from kilonova.records import dataclass
from kilonova.scheduler.devices.port_requests import port_pci_requests
from kilonova.scheduler.guest_options import guest_option_reads
from kilonova.scheduler.reads import Reads, names

_SPEC = "pci_passthrough:alias"
_POLICY = "pci_numa_affinity_policy"
PCI_READS = guest_option_reads(_POLICY) | Reads(extra_specs=names(_SPEC))
_REQUESTED = re.compile(r"([^:]+):\s*(\d{1,6})")
_ID = re.compile(r"[0-9a-fA-F]{4}")
_KEYS = frozenset(
    {
        *("name", "vendor_id", "product_id", "device_type", "numa_policy", "capability_type", "resource_class"),
        *("traits", "live_migratable"),
    }
)
_UNMATCHED = frozenset({"name", "numa_policy", "device_type", "capability_type", "resource_class", "traits"})
_TRUE = frozenset({"1", "t", "true", "on", "y", "yes"})


@dataclass(frozen=True, slots=True)
class Alias:
    """A PCI alias. ``specs``: alternatives, each a sorted tuple of (attribute, value) pairs that a device must have."""

    name: str
    numa_policy: NumaPolicy
    specs: tuple[tuple[tuple[str, str], ...], ...]


@cache
def read_aliases(texts: tuple[str, ...]) -> Mapping[str, Alias]:
    """Parse the values of ``[pci] alias``, each a JSON object. Several values may define the same alias name.

    Raises: ConfigurationError, naming the invalid value.
    """
    aliases: dict[str, Alias] = {}
    for text in texts:
        given = _object(text)
        name = str(given["name"]).strip()
        try:
            policy = NumaPolicy(given.get("numa_policy") or NumaPolicy.LEGACY)
        except ValueError:
            raise _wrong(text, f"numa_policy must be one of {', '.join(NumaPolicy)}") from None
        spec = {key: str(value).lower() for key, value in given.items() if key not in _UNMATCHED}
        if "device_type" in given:
            spec["dev_type"] = given["device_type"]
        if "live_migratable" in spec:
            spec["live_migratable"] = "true" if spec["live_migratable"] in _TRUE else "false"
        known = aliases.get(name)
        if known is not None and known.numa_policy is not policy:
            raise _wrong(text, "another value of this alias has a different numa_policy")
        if known is not None and dict(known.specs[0]).get("dev_type") != spec.get("dev_type"):
            raise _wrong(text, "another value of this alias has a different device_type")
        specs = (*(known.specs if known is not None else ()), tuple(sorted(spec.items())))
        aliases[name] = Alias(name, policy, specs)
    return aliases


def all_pci_requests(spec: RequestSpec, aliases: Mapping[str, Alias]) -> tuple[PciRequest, ...]:
    """Return the devices that the flavor and the ports of a request need. Raises: InvalidRequest."""
    asked = pci_requests(spec.flavor, spec.image, aliases)
    return (*asked, *requests_of_ports(spec)) if spec.networks else asked


def requests_of_ports(spec: RequestSpec) -> tuple[PciRequest, ...]:
    """Return the devices that the ports of a request need. Raises: InvalidRequest."""
    return port_pci_requests(spec.networks, _numa_policy(spec.flavor, spec.image))


def pci_requests(flavor: Flavor, image: Image | None, aliases: Mapping[str, Alias]) -> tuple[PciRequest, ...]:
    """Return the devices that ``pci_passthrough:alias`` (``name:count,name2:count``) requests.

    Raises: InvalidRequest, for an alias that is not configured, or if flavor and image set different NUMA policies.
    """
    policy = _numa_policy(flavor, image)
    asked = flavor.extra_specs.get(_SPEC)
    if not asked:
        return ()
    requests: list[PciRequest] = []
    for part in asked.split(","):
        found = _REQUESTED.fullmatch(part.strip())
        if found is None or not int(found[2]):
            raise InvalidRequest(f"{_SPEC} must be NAME:COUNT,…, not '{asked}'.")
        alias = aliases.get(found[1].strip())
        if alias is None:
            raise InvalidRequest(f"{_SPEC}: PCI alias {found[1]} is not defined.")
        requests.append(PciRequest(alias.name, int(found[2]), alias.specs, policy or alias.numa_policy))
    return tuple(requests)


def _numa_policy(flavor: Flavor, image: Image | None) -> NumaPolicy | None:
    of_flavor = flavor.extra_specs.get(f"hw:{_POLICY}") or None
    of_image = image.properties.get(f"hw_{_POLICY}") or None if image is not None else None
    if of_flavor and of_image and of_flavor != of_image:
        raise InvalidRequest(
            f"Image property hw_{_POLICY} '{of_image}' contradicts the flavor's hw:{_POLICY} '{of_flavor}'."
        )
    policy = of_flavor or of_image
    if policy is not None and policy not in list(NumaPolicy):
        raise InvalidRequest(f"hw:{_POLICY} must be one of {', '.join(NumaPolicy)}, not '{policy}'.")
    return None if policy is None else NumaPolicy(policy)


def _object(text: str) -> Mapping[str, Any]:
    try:
        given: Any = json.loads(text)
    except ValueError as error:
        raise _wrong(text, f"the value is not valid JSON: {error}") from None
    if not isinstance(given, dict) or not str(given.get("name", "")).strip():
        raise _wrong(text, "the value must be a JSON object with a name")
    if unknown := sorted(set(given) - _KEYS):
        raise _wrong(text, f"unknown key {unknown[0]!r}")
    for key in ("vendor_id", "product_id"):
        if not isinstance(given.get(key), str) or not _ID.fullmatch(given[key]):
            raise _wrong(text, f"{key} must be four hexadecimal digits")
    if given.get("device_type", STANDARD) not in {STANDARD, PF, VF}:
        raise _wrong(text, f"device_type must be one of {STANDARD}, {PF}, {VF}")
    return given


def _wrong(text: str, why: str) -> ConfigurationError:
    return ConfigurationError(f"[pci] alias = {text}: {why}.")
