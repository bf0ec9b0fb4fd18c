# SPDX-License-Identifier: Apache-2.0
"""Comparison of the Placement query that Nova and Kilonova make of a request, including rejections.

Nova's own code builds its query; only its database reads (aggregates, oldest agent) are replaced.
"""

import re
from collections.abc import Hashable, Mapping, Sequence
from random import Random
from typing import Any

from nova import conf, objects
from nova.compute.api import API
from nova.scheduler import request_filter
from nova.scheduler.utils import ResourceRequest
from nova.virt import hardware

from kilonova.model.aggregate import Aggregate
from kilonova.model.flavor import Flavor
from kilonova.model.image import Image
from kilonova.model.request_spec import RequestSpec
from kilonova.scheduler.devices.pci_request import pci_requests
from kilonova.scheduler.engine.funnel import filtered
from kilonova.scheduler.guest_features import require_possible
from kilonova.scheduler.host_records import HostRecord, build_host_table
from kilonova.scheduler.numa_request import numa_request
from kilonova.scheduler.request_filters import configured_request_filters
from kilonova.scheduler.resources import with_resources
from kilonova.scheduler.settings import SchedulerConfig
from scheduler_peer import nova_world

NO_HOST = "no provider can serve it"
_SWITCHES = (
    "limit_tenants_to_placement_aggregate",
    "query_placement_for_image_type_support",
    "enable_isolated_aggregate_filtering",
    "image_metadata_prefilter",
)
CONFIG = SchedulerConfig(**dict.fromkeys(_SWITCHES, True))
_NAME = re.compile(r"[A-Z0-9_]+")
_AMOUNTS = ("1", "2", "0", "+1", " 3 ", "1_0", "-1", "1.5", "one", "")
_TRAITS = ("required", "required", "forbidden", "Required", "")
_BOOLEANS = ("true", "yes", "1", "True", "no", "off", "maybe", "")
_SECURE_BOOT = ("required", "optional", "disabled", "Required")
_TPM_MODELS = ("tpm-tis", "tpm-crb", "crb")
_ENCRYPTION_MODELS = ("amd-sev", "amd-sev-es", "amd-sev-snp", "intel-tdx", "sev")
_ADDRESSES = ("passthrough", "emulate", "Emulate")
_SOUNDS = ("virtio", "sb16", "Virtio", "harp")
_FORMATS = ("luks", "plain", "luksv2", "zip")
EXTRA_SPECS: Mapping[str, tuple[str, ...]] = {
    **{f"resources:{name}": _AMOUNTS for name in ("VGPU", "DISK_GB", "MEMORY_MB", "CUSTOM_GOLD")},
    **{f"resources:{name}": _AMOUNTS for name in ("NOSUCH", "CUSTOM_lower")},
    "resources:MEM_ENCRYPTION_CONTEXT": ("2", "0"),
    "resources:CUSTOM_PMEM_NAMESPACE_GOLD": ("3", "0"),
    "resources:VCPU": ("2", "4", "0", "+1", "+4", "", " 4 "),
    "resources:PCPU": ("4", "5", "0", "+1", "+4", "1_0"),
    "resources1:VGPU": _AMOUNTS,
    "resources1:NOSUCH": _AMOUNTS,
    "resources_net:CUSTOM_NIC": ("1",),
    "resources:": ("1",),
    "resources.1:VGPU": ("1",),
    **{f"trait:{name}": _TRAITS for name in ("CUSTOM_A", "CUSTOM_B", "HW_CPU_X86_AVX2")},
    **{f"trait:{name}": _TRAITS for name in ("custom_lower", "CUSTOM-DASH", "")},
    "trait:HW_CPU_HYPERTHREADING": ("required", "forbidden"),
    "trait1:CUSTOM_A": _TRAITS,
    "trait1:CUSTOM_SSD": ("required", "forbidden"),
    "trait_net:CUSTOM_B": _TRAITS,
    "group_policy": ("none", "isolate", "both"),
    "hw:cpu_policy": ("dedicated", "dedicated", "mixed", "shared"),
    "hw:cpu_thread_policy": ("require", "isolate", "prefer"),
    "hw:emulator_threads_policy": ("isolate", "share"),
    "hw:cpu_dedicated_mask": ("0-1", "^0", "1"),
    "hw:cpu_realtime": ("yes",),
    "hw:cpu_realtime_mask": ("^0", "1-3"),
    "hw:pmem": ("gold", "gold,Silver", "4GB,4GB", "fast-1", " , ", "gold, ,gold"),
    "hw:mem_encryption": _BOOLEANS,
    "hw:mem_encryption_model": _ENCRYPTION_MODELS,
    "hw:tpm_version": ("1.2", "2.0", "2.0", "3.0"),
    "hw:tpm_model": _TPM_MODELS,
    "hw:tpm_secret_security": ("user", "host", "deployment", "Host", "nobody"),
    "hw:maxphysaddr_mode": _ADDRESSES,
    "hw:maxphysaddr_bits": ("42",),
    "hw:firmware_stateless": _BOOLEANS,
    "hw:pci_numa_affinity_policy": ("socket", "required", "preferred"),
    "hw:virtio_packed_ring": _BOOLEANS,
    "hw:ephemeral_encryption": _BOOLEANS,
    "hw:ephemeral_encryption_format": _FORMATS,
    "hw:sound_model": _SOUNDS,
    "os:secure_boot": _SECURE_BOOT,
    "accel:device_profile": ("fpga", ""),
}  # fmt: skip
PROPERTIES: Mapping[str, tuple[str, ...]] = {
    **{f"trait:{name}": _TRAITS for name in ("CUSTOM_A", "CUSTOM_B", "custom_lower", "HW_CPU_HYPERTHREADING")},
    "trait1:CUSTOM_A": ("required",),
    "hw_cpu_policy": ("dedicated", "shared"),
    "hw_cpu_thread_policy": ("require", "isolate"),
    "hw_cpu_realtime_mask": ("^0", "0-1"),
    "hw_mem_encryption": _BOOLEANS[:-1],
    "hw_mem_encryption_model": _ENCRYPTION_MODELS,
    "hw_firmware_type": ("uefi", "uefi", "uefi", "bios", "UEFI"),
    "hw_firmware_stateless": _BOOLEANS[:-1],
    "hw_machine_type": ("q35", "pc-q35-9.0", "pc"),
    "hw_tpm_version": ("1.2", "2.0", "3.0"),
    "hw_tpm_model": _TPM_MODELS,
    "hw_tpm_secret_security": ("host", "deployment"),
    "hw_maxphysaddr_mode": _ADDRESSES,
    "hw_pci_numa_affinity_policy": ("socket", "required"),
    "hw_virtio_packed_ring": _BOOLEANS[:-1],
    "hw_ephemeral_encryption": _BOOLEANS[:-1],
    "hw_ephemeral_encryption_format": _FORMATS,
    "hw_sound_model": _SOUNDS,
    "os_secure_boot": _SECURE_BOOT,
    "hw_vif_model": ("virtio", "e1000", "VirtualE1000", "VIRTIO", "nosuch"),
    "hw_video_model": ("none", "qxl", "QXL", "nosuch"),
    "hw_disk_bus": ("scsi", "virtio", "lxc", "SCSI", "nosuch"),
    "hw_cdrom_bus": ("ide", "sata"),
    "vmware_adaptertype": ("ide", "lsiLogic", "busLogic", "paraVirtual", "nosuch"),
    "hw_scsi_model": ("virtio-scsi", "lsilogic", "nosuch"),
    "hw_architecture": ("x86_64", "amd64", "i386", "X86_64", "pdp11"),
    "architecture": ("aarch64", "vax"),
    "hw_emulation_architecture": ("aarch64", "i686", "pdp11"),
    "img_hv_type": ("kvm", "KVM", "xapi", "nosuch"),
    "hypervisor_type": ("qemu",),
    "hw_vm_mode": ("hvm", "hv", "HVM", "nosuch"),
    "img_hv_requested_version": (">=6.0", "seven"),
    "hw_cpu_sockets": ("2", "two"),
    "hw_rng_model": ("virtio", "dice"),
    "hw_watchdog_action": ("reset", "bark"),
    "os_type": ("linux", "Linux", "plan9"),
    "hw_time_hpet": ("maybe",),
    "os_distro": ("anything",),
}
METADATA: Mapping[str, tuple[str, ...]] = {
    **{
        f"trait:{name}": ("required", "required", "forbidden")
        for name in (
            *("CUSTOM_A", "CUSTOM_B", "HW_CPU_X86_AVX2", "HW_CPU_HYPERTHREADING", "HW_CPU_X86_AMD_SEV"),
            *("COMPUTE_SECURITY_UEFI_SECURE_BOOT", "COMPUTE_SECURITY_TPM_2_0", "COMPUTE_SECURITY_TPM_TIS"),
            *("COMPUTE_ADDRESS_SPACE_EMULATED", "COMPUTE_SOCKET_PCI_NUMA_AFFINITY"),
            *("COMPUTE_SECURITY_STATELESS_FIRMWARE", "COMPUTE_NET_VIF_MODEL_E1000", "COMPUTE_ACCELERATORS"),
        )
    },
    "filter_tenant_id": ("p", "q", "p,q"),
    "filter_tenant_id2": ("p",),
    "availability_zone": ("a", "b"),
    "ssd": ("true", "p"),
}
#: Keys that belong together; adding most of a set often makes a request complete.
_TOGETHER = (
    ("hw:mem_encryption", "hw_firmware_type", "hw_machine_type", "hw:mem_encryption_model"),
    ("hw_mem_encryption", "hw_firmware_type", "hw_firmware_stateless", "hw_mem_encryption_model", "hw_video_model"),
    ("hw_firmware_type", "hw_firmware_stateless"),
    ("hw:tpm_version", "hw:tpm_model", "hw:tpm_secret_security", "hw_tpm_secret_security"),
    ("hw_tpm_version", "hw_tpm_model", "hw:tpm_secret_security"),
    ("hw:cpu_policy", "hw:cpu_thread_policy", "hw:emulator_threads_policy"),
    ("resources:PCPU", "hw:cpu_thread_policy", "hw:emulator_threads_policy"),
    ("hw:ephemeral_encryption", "hw_ephemeral_encryption_format"),
    ("resources:VCPU", "trait1:CUSTOM_SSD"),
    ("resources1:VGPU", "trait1:CUSTOM_SSD", "trait1:CUSTOM_A", "resources_net:CUSTOM_NIC", "trait_net:CUSTOM_B"),
)


def some_request(rng: Random) -> RequestSpec:
    """Return a flavor and an image with a few random requirements, valid or not."""
    keys = set(rng.sample(sorted(EXTRA_SPECS), rng.choice((0, 1, 1, 2, 3))))
    keys |= set(rng.sample(sorted(PROPERTIES), rng.choice((0, 0, 1, 1, 2))))
    if rng.random() < 0.5:
        keys |= {key for key in rng.choice(_TOGETHER) if rng.random() < 0.8}
    specs = {key: rng.choice(EXTRA_SPECS[key]) for key in sorted(keys & EXTRA_SPECS.keys())}
    properties = {key: rng.choice(PROPERTIES[key]) for key in sorted(keys & PROPERTIES.keys())}
    if rng.random() < 0.1:
        specs |= {"hw:cpu_policy": "mixed", rng.choice(("hw:cpu_dedicated_mask", "hw:cpu_realtime_mask")): "^0"}
        specs |= {"hw:cpu_realtime": "yes"} if "hw:cpu_realtime_mask" in specs else {}
    return RequestSpec(
        Flavor(
            "1",
            "m1",
            4,
            rng.choice((512, 1024)),
            rng.choice((0, 1, 20)),
            ephemeral_gib=rng.choice((0, 0, 3)),
            swap_mib=rng.choice((0, 0, 1, 1024, 1025)),
            extra_specs=specs,
        ),
        Image("i", disk_format=rng.choice(("raw", "qcow2", "vhd", "docker")), properties=properties),
        project_id=rng.choice(("p", "q", "r")),
        availability_zone=rng.choice((None, "a", "b", "nova")),
        volume_backed=rng.random() < 0.1,
    )


def some_aggregates(rng: Random) -> tuple[Aggregate, ...]:
    def metadata() -> dict[str, str]:
        return {key: rng.choice(METADATA[key]) for key in rng.sample(sorted(METADATA), rng.choice((0, 1, 1, 2)))}

    return tuple(Aggregate(number, f"u{number}", f"a{number}", (), metadata()) for number in range(rng.choice((0, 3))))


def ours(spec: RequestSpec, aggregates: Sequence[Aggregate]) -> Hashable:
    """Return Kilonova's query, in the form of :func:`_normal`. Raises: InvalidRequest."""
    image = spec.image
    assert image is not None
    require_possible(spec.flavor, image)
    numa_request(spec.flavor, image)
    pci_requests(spec.flavor, image, {})
    hosts = build_host_table((HostRecord("node1", ()),), aggregates)
    complete = filtered(hosts, with_resources(spec), configured_request_filters(CONFIG)).query
    fallback = complete.fallback
    return _normal(
        {"": _side(complete), **{group.suffix: _side(group) for group in complete.groups}},
        member_of=complete.member_of,
        forbidden_aggregates=complete.forbidden_aggregates,
        root=(complete.root_required, complete.root_forbidden),
        policy=complete.group_policy,
        fallback=None
        if fallback is None
        else {"": _side(fallback), **{group.suffix: _side(group) for group in fallback.groups}},
    )


def _side(group: Any) -> tuple[Mapping[str, int], frozenset[str], frozenset[str]]:
    return group.resources, group.required, group.forbidden


def theirs(spec: RequestSpec, aggregates: Sequence[Aggregate]) -> Hashable:
    """Return Nova's query. Raises: nova_world.Refused, or one of ``nova_devices.REFUSALS``."""
    flavor = nova_world.flavor(spec.flavor)
    assert spec.image is not None
    image = {"id": "i", "name": "i", "disk_format": spec.image.disk_format, "properties": dict(spec.image.properties)}
    hardware.get_packed_virtqueue_constraint(flavor, image)
    API._validate_flavor_image_numa_pci({**image, "properties": dict(spec.image.properties)}, flavor)
    asked = nova_world.request_spec(spec)
    asked.image.disk_format = spec.image.disk_format
    asked.request_level_params = objects.RequestLevelParams()
    asked.requested_networks, asked.is_bfv = objects.NetworkRequestList(objects=[]), spec.volume_backed
    nova_world.know_aggregates(aggregates)
    request_filter.process_reqspec(None, asked)
    request = ResourceRequest.from_request_spec(asked)
    destination = asked.requested_destination
    again = None
    if request.cpu_pinning_requested:
        again = ResourceRequest.from_request_spec(asked, enable_pinning_translate=False)
    return _normal(
        _groups_of(request),
        member_of=[frozenset(each.split(",")) for each in destination.aggregates or ()] if destination else (),
        forbidden_aggregates=frozenset(destination.forbidden_aggregates or ()) if destination else frozenset(),
        root=(frozenset(asked.root_required), frozenset(asked.root_forbidden)),
        policy=request.group_policy,
        fallback=None if again is None else _groups_of(again),
    )


def _groups_of(request: Any) -> dict[str, Any]:
    return {
        suffix or "": (dict(group.resources), frozenset(group.required_traits), frozenset(group.forbidden_traits))
        for suffix, group in request._rg_by_id.items()
    }


def _normal(
    groups: Mapping[str, Any],
    *,
    member_of: Any,
    forbidden_aggregates: frozenset[str],
    root: tuple[frozenset[str], frozenset[str]],
    policy: str | None,
    fallback: Mapping[str, Any] | None,
) -> Hashable:
    """Return a query in comparable form; queries with a name that Placement rejects are all NO_HOST."""
    names = {name for resources, required, forbidden in groups.values() for name in (*resources, *required, *forbidden)}
    if not all(_NAME.fullmatch(name) for name in names):
        return NO_HOST
    return (
        _groups(groups),
        frozenset(member_of),
        forbidden_aggregates,
        root,
        policy if len(groups) > 2 else None,
        None if fallback is None else _groups(fallback),
    )


def _groups(groups: Mapping[str, Any]) -> Hashable:
    return frozenset(
        (suffix, frozenset(resources.items()), required, forbidden)
        for suffix, (resources, required, forbidden) in groups.items()
    )


def configure() -> None:
    """Enable all optional request filters."""
    for name in _SWITCHES:
        conf.CONF.set_override(name, getattr(CONFIG, name), "scheduler")
