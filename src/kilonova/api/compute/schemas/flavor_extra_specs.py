# SPDX-License-Identifier: Apache-2.0
"""Schemas of flavor extra specs, and validators of their keys and values, which are used since microversion 2.86.

Nova's namespaces have validators. In all other namespaces every key and every value is valid.
"""

import re
from collections.abc import Callable, Mapping
from functools import cache

from kilonova.api.microversion import Version
from kilonova.api.schemas.types import METADATA_KEY, JSONDict, body
from kilonova.api.validation import Schemas
from kilonova.errors import InvalidRequest
from kilonova.records import dataclass

_SPECS: JSONDict = {
    "type": "object",
    "patternProperties": {METADATA_KEY: {"type": ["string", "number"], "maxLength": 255}},
    "additionalProperties": False,
}

CREATE = Schemas({(2, 1): body("extra_specs", {}) | {"properties": {"extra_specs": _SPECS}}})
UPDATE = Schemas({(2, 1): {**_SPECS, "minProperties": 1, "maxProperties": 1}})

Check = Callable[[str], bool]
_CPU_SET = r"\^?\d+(-\d+)?(,\^?\d+(-\d+)?)*"
_BOOLEANS = frozenset({"true", "t", "yes", "y", "on", "1", "false", "f", "no", "n", "off", "0"})
_NUMBER = re.compile(r"[+-]?\d{1,18}")


@dataclass(frozen=True, slots=True)
class _Text:
    """Validator that accepts the values that match a regular expression."""

    pattern: re.Pattern[str]

    def __call__(self, value: str) -> bool:
        return self.pattern.fullmatch(value) is not None


def _text(pattern: str = r".*") -> Check:
    return _Text(re.compile(pattern, re.DOTALL))


def _one_of(*words: str) -> Check:
    return lambda value: value in words


def _boolean(value: str) -> bool:
    return value.lower() in _BOOLEANS


def _number(minimum: int | None = None, maximum: int | None = None) -> Check:
    def check(value: str) -> bool:
        if _NUMBER.fullmatch(value) is None:
            return False
        return (minimum is None or int(value) >= minimum) and (maximum is None or int(value) <= maximum)

    return check


_HOST_FACTS = (
    "id|uuid|service_id|host|vcpus|memory_mb|local_gb|vcpus_used|memory_mb_used|local_gb_used|hypervisor_type"
    "|hypervisor_version|hypervisor_hostname|free_ram_mb|free_disk_gb|current_workload|running_vms"
    "|disk_available_least|host_ip|mapped|cpu_allocation_ratio|ram_allocation_ratio|disk_allocation_ratio"
    "|total_usable_ram_mb|total_usable_disk_gb|disk_mb_used|free_disk_mb|vcpus_total|num_instances|num_io_ops"
    "|failed_builds|aggregates|cell_uuid|updated"
)
_NESTED_FACTS = "cpu_info|metrics|stats|numa_topology|supported_hv_specs|pci_device_pools|nodename"

#: Namespace → pattern of the rest of the key → validator of the value. Source: Nova's extra spec reference.
_KNOWN: Mapping[str, Mapping[str, Check]] = {
    "accel": {"device_profile": _text()},
    "aggregate_instance_extra_specs": {r".+": _text()},
    "capabilities": {_HOST_FACTS: _text(), rf"({_NESTED_FACTS})(:\w+)*": _text()},
    "hw": {
        "boot_menu|cpu_realtime|hide_hypervisor_id|locked_memory|mem_encryption|pmu": _boolean,
        "vif_multiqueue_enabled|virtio_packed_ring|ephemeral_encryption": _boolean,
        "cpu_dedicated_mask|cpu_realtime_mask": _text(_CPU_SET),
        "cpu_policy": _one_of("dedicated", "shared", "mixed"),
        "cpu_thread_policy": _one_of("prefer", "isolate", "require"),
        "emulator_threads_policy": _one_of("isolate", "share"),
        "cpu_(max_)?(sockets|cores|threads)": _number(1),
        "ephemeral_encryption_format": _one_of("luks"),
        "input_bus": _one_of("usb", "virtio"),
        "maxphysaddr_bits": _number(1),
        "maxphysaddr_mode": _one_of("passthrough", "emulate"),
        "mem_encryption_model": _one_of("amd-sev", "amd-sev-es", "amd-sev-snp", "intel-tdx"),
        "mem_page_size": _text(r"large|small|any|\d+([kKMGT]i?)?(b|bit|B)?"),
        "numa_nodes": _number(1),
        r"numa_cpus\.\d+": _text(_CPU_SET),
        r"numa_mem\.\d+": _number(1),
        "pci_numa_affinity_policy": _one_of("required", "preferred", "legacy", "socket"),
        "pmem": _text(),
        "redirected_usb_ports": _number(0, 15),
        "scsi_model|sound_model|usb_model": _text(),
        "serial_port_count": _number(0),
        "tpm_model": _one_of("tpm-crb", "tpm-tis"),
        "tpm_secret_security": _one_of("user", "host", "deployment"),
        "tpm_version": _one_of("1.2", "2.0"),
        "viommu_model": _one_of("intel", "smmuv3", "virtio", "auto"),
        "watchdog_action": _one_of("none", "pause", "poweroff", "reset", "disabled"),
    },
    "hw_rng": {"allowed": _boolean, "rate_bytes|rate_period": _number(0)},
    "hw_video": {"ram_max_mb": _number(0)},
    "os": {"secure_boot": _one_of("disabled", "optional", "required")},
    "pci_passthrough": {"alias": _text(r"[^:,]+:\d+(,[^:,]+:\d+)*")},
    "powervm": {
        "(min|max)_(mem|vcpu)": _number(1),
        "(min|max)_proc_units|proc_units": _text(r"\d+(\.\d+)?|\.\d+"),
        "dedicated_proc|uncapped": _boolean,
        "dedicated_sharing_mode": _text(r"keep_idle_procs|share_idle_procs(_active|_always)?"),
        "processor_compatibility|srr_capability|availability_priority|shared_(proc_pool_name|weight)": _text(),
    },
    "quota": {
        "cpu_(shares|period|quota)": _number(),
        "disk_(read|write|total)_(bytes|iops)_sec(_max)?": _number(0),
        "vif_(in|out)bound_(average|peak|burst)": _number(0),
        "(cpu|memory|disk_io|vif)_(limit|reservation)": _number(),
        "(cpu|memory|disk_io|vif)_shares_level": _one_of("custom", "high", "normal", "low"),
        "(cpu|memory|disk_io|vif)_shares_share": _number(0),
    },
    "resources": {r"[A-Z0-9_]+": _number(0)},
    "trait": {r"[A-Z0-9_]+": _one_of("required", "forbidden")},
    "vmware": {"hw_version|storage_policy|resource_pool|boot_type|vnic_type|tpm_supported": _text()},
}  # fmt: skip
_OF_HYPERVISORS = frozenset({"hw", "hw_rng", "hw_video", "os", "powervm", "quota", "vmware"})
#: Matches the namespaces that may end with the suffix of a request group, such as resources1 or trait_GPU.
_GROUPED = re.compile(r"(resources|trait)[a-zA-Z0-9_-]{0,64}")
_BARE: Mapping[str, Check] = {"group_policy": _one_of("none", "isolate"), "hide_hypervisor_id": _boolean}


def check_spec(key: str, value: str, version: Version) -> None:
    """Raise InvalidRequest naming the key if the value is invalid, or if the key's namespace has no such key.

    Before 2.86, and in unknown namespaces, every extra spec is valid.
    """
    if version < Version(2, 86):
        return
    check = _check_of(key)
    if check is None:
        raise InvalidRequest(f"Validation failed; extra spec '{key}' is unknown in its namespace.", field=key)
    if not check(value):
        raise InvalidRequest(f"Validation failed; '{value}' is not a valid value of extra spec '{key}'.", field=key)


def is_read_by_hypervisors(key: str) -> bool:
    """Whether hypervisor drivers read the extra spec: ``key`` is known, and in a namespace that drivers read."""
    namespace, colon, _ = key.partition(":")
    known = namespace in _OF_HYPERVISORS if colon else key in _BARE
    return known and _check_of(key) is not None


@cache
def _patterns() -> tuple[tuple[str, re.Pattern[str], Check], ...]:
    return tuple(
        (namespace, re.compile(pattern), check) for namespace, keys in _KNOWN.items() for pattern, check in keys.items()
    )


def _check_of(key: str) -> Check | None:
    namespace, colon, rest = key.partition(":")
    if not colon:
        return _BARE.get(key, _text())
    if (grouped := _GROUPED.fullmatch(namespace)) is not None:
        namespace = grouped[1]
    if namespace not in _KNOWN:
        return _text()
    for owner, pattern, check in _patterns():
        if owner == namespace and pattern.fullmatch(rest):
            return check
    return None
