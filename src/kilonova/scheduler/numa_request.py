# SPDX-License-Identifier: Apache-2.0
"""Parser of the NUMA topology that a flavor and an image request.

A server has a NUMA topology if it requests NUMA nodes, dedicated CPUs, a memory page size or persistent memory.
Invalid values, and contradictions between flavor and image, raise InvalidRequest.
"""

import re
from collections.abc import Mapping
from fractions import Fraction
from typing import TypeVar

from kilonova.errors import InvalidRequest
from kilonova.model.cpu_set import parse_cpus
from kilonova.model.flavor import Flavor
from kilonova.model.image import Image
from kilonova.model.numa import CpuPolicy, InstanceCell, InstanceNuma, PageRequest, ThreadPolicy
from kilonova.scheduler.guest_options import guest_option_reads, is_true, whole_number
from kilonova.scheduler.reads import Keys, Reads

W = TypeVar("W", CpuPolicy, ThreadPolicy)
_CONCERNED = ("hw:", "resources", "trait")
_AMOUNT = re.compile(r"resources[A-Za-z0-9_-]{0,64}:(VCPU|PCPU)")
_HYPERTHREADING = re.compile(r"trait[A-Za-z0-9_-]{0,64}:HW_CPU_HYPERTHREADING")
_OPTIONS = ("cpu_policy", "cpu_thread_policy", "cpu_realtime_mask", "numa_nodes", "mem_page_size")
_CELLS = ("numa_cpus.", "numa_mem.")
_OF_FLAVORS = ("cpu_dedicated_mask", "cpu_realtime", "emulator_threads_policy", "pmem")
NUMA_READS = guest_option_reads(*_OPTIONS) | Reads(
    extra_specs=Keys(
        names=frozenset(f"hw:{name}" for name in _OF_FLAVORS),
        prefixes=tuple(f"hw:{name}" for name in _CELLS),
        matching=(lambda key: bool(_AMOUNT.fullmatch(key) or _HYPERTHREADING.fullmatch(key)),),
    ),
    properties=Keys(names=frozenset({"trait:HW_CPU_HYPERTHREADING"}), prefixes=tuple(f"hw_{name}" for name in _CELLS)),
)
_PAGE_SIZE = re.compile(r"(\d{1,15}|\d{0,15}\.\d{1,6})(?:([kKMGT])i?)?(b|bit|B)?")
_POWERS = {None: 0, "k": 1, "K": 1, "M": 2, "G": 3, "T": 4}


def numa_request(flavor: Flavor, image: Image | None = None) -> InstanceNuma | None:
    """Return the NUMA topology of a server, or None if the server requests none.

    Raises: InvalidRequest, naming the key.
    Source: Nova admin guide, "CPU topologies" and "Huge pages"; spec SCHEDULER §3 #21, §7.
    """
    properties: Mapping[str, str] = image.properties if image is not None else {}
    if not any(key.startswith(_CONCERNED) for key in flavor.extra_specs) and not any(
        key.startswith(("hw_", "trait")) for key in properties
    ):
        return None
    asked = _Asked(flavor, properties)
    policy = asked.cpu_policy()
    threads = asked.thread_policy()
    isolate = asked.emulator_policy() == "isolate"
    policy = asked.policy_of_amounts(policy, isolate=isolate)
    dedicated = asked.dedicated_cpus(policy, isolate=isolate)
    if policy is None or policy is CpuPolicy.SHARED:
        if threads is not None:
            raise InvalidRequest("hw:cpu_thread_policy needs hw:cpu_policy 'dedicated' or 'mixed'.")
        if isolate:
            raise InvalidRequest("hw:emulator_threads_policy 'isolate' needs hw:cpu_policy 'dedicated' or 'mixed'.")
    nodes = asked.nodes()
    page_size = asked.page_size()
    pins = policy in {CpuPolicy.DEDICATED, CpuPolicy.MIXED}
    if not (nodes or page_size is not None or pins or flavor.extra_specs.get("hw:pmem", "").strip(" ,")):
        return None
    return InstanceNuma(
        cells=asked.cells(nodes or 1, dedicated),
        cpu_policy=policy or CpuPolicy.SHARED,
        thread_policy=threads,
        page_size=page_size,
        isolate_emulator=isolate,
    )


class _Asked:
    """The NUMA options of a flavor's extra specs and an image's properties."""

    def __init__(self, flavor: Flavor, properties: Mapping[str, str]) -> None:
        self._flavor = flavor
        self._specs = flavor.extra_specs
        self._properties = properties

    def _both(self, name: str) -> tuple[str | None, str | None]:
        return self._specs.get(f"hw:{name}") or None, self._property(f"hw_{name}")

    def _property(self, name: str) -> str | None:
        value = self._properties.get(name)
        return str(value) if value else None

    def _only_one(self, name: str) -> str | None:
        of_flavor, of_image = self._both(name)
        if of_flavor and of_image:
            raise InvalidRequest(f"Image property hw_{name} may not override the flavor's hw:{name}.")
        return of_flavor or of_image

    def cpu_policy(self) -> CpuPolicy | None:
        of_flavor, of_image = (_word(CpuPolicy, "cpu_policy", value) for value in self._both("cpu_policy"))
        stricter = {
            CpuPolicy.SHARED: {CpuPolicy.MIXED, CpuPolicy.DEDICATED},
            CpuPolicy.MIXED: {CpuPolicy.DEDICATED},
        }
        if of_flavor is not None and of_image in stricter.get(of_flavor, ()):
            raise InvalidRequest(
                f"Image property hw_cpu_policy '{of_image}' may not override the flavor's hw:cpu_policy '{of_flavor}'."
            )
        return of_flavor or of_image

    def thread_policy(self) -> ThreadPolicy | None:
        of_flavor, of_image = (
            _word(ThreadPolicy, "cpu_thread_policy", value) for value in self._both("cpu_thread_policy")
        )
        if of_flavor not in {None, ThreadPolicy.PREFER} and of_image not in {None, of_flavor}:
            raise InvalidRequest(
                f"Image property hw_cpu_thread_policy '{of_image}' contradicts the flavor's hw:cpu_thread_policy "
                f"'{of_flavor}'."
            )
        chosen = of_flavor or of_image
        trait = self._hyperthreading()
        if chosen is not None and trait is not None:
            raise InvalidRequest(
                "hw:cpu_thread_policy and trait:HW_CPU_HYPERTHREADING exclude each other; use one of them."
            )
        return {"forbidden": ThreadPolicy.ISOLATE, "required": ThreadPolicy.REQUIRE}.get(trait or "", chosen)

    def _hyperthreading(self) -> str | None:
        of_flavor = (value for key, value in self._specs.items() if _HYPERTHREADING.fullmatch(key))
        required = self._properties.get("trait:HW_CPU_HYPERTHREADING") == "required"
        return next(of_flavor, "required" if required else None)

    def emulator_policy(self) -> str | None:
        value = self._specs.get("hw:emulator_threads_policy") or None
        if value not in {None, "isolate", "share"}:
            raise InvalidRequest(f"hw:emulator_threads_policy must be 'isolate' or 'share', not '{value}'.")
        return value

    def policy_of_amounts(self, policy: CpuPolicy | None, *, isolate: bool) -> CpuPolicy | None:
        """Return the CPU policy that ``resources:VCPU`` or ``resources:PCPU`` implies; ``policy`` if neither is set."""
        amounts = {"VCPU": 0, "PCPU": 0}
        for key, value in self._specs.items():
            if (found := _AMOUNT.fullmatch(key)) and (amount := whole_number(value)) is not None:
                amounts[found[1]] += amount
        if not any(amounts.values()):
            return policy
        if policy is not None:
            raise InvalidRequest(
                "hw:cpu_policy cannot be combined with resources:VCPU or resources:PCPU; use one of them."
            )
        if all(amounts.values()):
            raise InvalidRequest("resources:VCPU and resources:PCPU exclude each other.")
        if amounts["VCPU"]:
            return CpuPolicy.SHARED
        right = self._flavor.vcpus + isolate
        if amounts["PCPU"] != right:
            raise InvalidRequest(f"resources:PCPU must be {right} for this flavor, not {amounts['PCPU']}.")
        return CpuPolicy.DEDICATED

    def dedicated_cpus(self, policy: CpuPolicy | None, *, isolate: bool) -> frozenset[int]:
        """Return the ids of the guest's dedicated vCPUs."""
        mask = self._specs.get("hw:cpu_dedicated_mask") or None
        realtime = self._realtime_cpus(isolate=isolate)
        everything = frozenset(range(self._flavor.vcpus))
        if mask is not None and policy is not CpuPolicy.MIXED:
            raise InvalidRequest("hw:cpu_dedicated_mask needs hw:cpu_policy 'mixed'.")
        if policy is CpuPolicy.DEDICATED:
            return everything
        if policy is not CpuPolicy.MIXED:
            if realtime is not None:
                raise InvalidRequest("hw:cpu_realtime needs hw:cpu_policy 'dedicated' or 'mixed'.")
            return frozenset()
        if (mask is None) == (realtime is None):
            raise InvalidRequest("hw:cpu_policy 'mixed' needs either hw:cpu_dedicated_mask or hw:cpu_realtime_mask.")
        if mask is None:
            assert realtime is not None
            return realtime
        chosen = self._mask("hw:cpu_dedicated_mask", mask)
        if not chosen < everything:
            raise InvalidRequest(
                "hw:cpu_dedicated_mask must name vCPUs of the flavor only, and leave at least one of them shared."
            )
        return chosen

    def _realtime_cpus(self, *, isolate: bool) -> frozenset[int] | None:
        if not is_true(self._specs.get("hw:cpu_realtime")):
            return None
        of_flavor, of_image = self._both("cpu_realtime_mask")
        everything = frozenset(range(self._flavor.vcpus))
        mask = of_image or of_flavor
        chosen = everything if mask is None else self._mask("hw:cpu_realtime_mask", mask)
        shares = self._specs.get("hw:emulator_threads_policy") or isolate
        if not chosen <= everything or (chosen == everything and not shares):
            raise InvalidRequest(
                "hw:cpu_realtime_mask must exclude at least one vCPU, or hw:emulator_threads_policy must be set."
            )
        return chosen

    def _mask(self, name: str, text: str) -> frozenset[int]:
        if text.strip().startswith("^"):
            text = f"0-{self._flavor.vcpus - 1},{text}"
        cpus = _cpus(name, text)
        if not cpus:
            raise InvalidRequest(f"{name} contains no vCPU.")
        return cpus

    def nodes(self) -> int | None:
        value = self._only_one("numa_nodes")
        if value is None:
            return None
        if not value.isdecimal() or not 0 < int(value) <= max(1, self._flavor.vcpus):
            raise InvalidRequest(
                f"hw:numa_nodes must be a number from 1 to the flavor's number of vCPUs, not '{value}'."
            )
        return int(value)

    def page_size(self) -> int | PageRequest | None:
        of_flavor, of_image = self._both("mem_page_size")
        if of_flavor is None:
            if of_image is not None:
                raise InvalidRequest(
                    "Image property hw_mem_page_size needs the flavor's hw:mem_page_size 'large' or 'any'."
                )
            return None
        size = _page_size(of_flavor)
        if of_image is None:
            return size
        if size not in {PageRequest.ANY, PageRequest.LARGE}:
            raise InvalidRequest(
                f"Image property hw_mem_page_size '{of_image}' may not override the flavor's hw:mem_page_size "
                f"'{of_flavor}'."
            )
        return _page_size(of_image)

    def cells(self, nodes: int, dedicated: frozenset[int]) -> tuple[InstanceCell, ...]:
        flavor = self._flavor
        cpus, memory = self._numbered("numa_cpus"), self._numbered("numa_mem")
        if not cpus and not memory:
            if flavor.vcpus % nodes or flavor.memory_mib % nodes:
                raise InvalidRequest(
                    "hw:numa_nodes does not divide the flavor's vCPUs and memory evenly; set hw:numa_cpus.N and "
                    "hw:numa_mem.N for each NUMA node."
                )
            each = flavor.vcpus // nodes
            parts = [frozenset(range(index * each, (index + 1) * each)) for index in range(nodes)]
            sizes = [flavor.memory_mib // nodes] * nodes
        else:
            if len(cpus) != nodes or len(memory) != nodes:
                raise InvalidRequest("hw:numa_cpus.N and hw:numa_mem.N must be set for every NUMA node, with N from 0.")
            parts = [_cpus("hw:numa_cpus", text) for text in cpus]
            if not all(text.isdecimal() for text in memory):
                raise InvalidRequest("hw:numa_mem.N must be a number of MiB.")
            sizes = [int(text) for text in memory]
            listed = [cpu for part in parts for cpu in part]
            if len(listed) != len(set(listed)) or set(listed) != set(range(flavor.vcpus)):
                raise InvalidRequest("hw:numa_cpus.N must name each vCPU of the flavor once, and no other.")
            if sum(sizes) != flavor.memory_mib:
                raise InvalidRequest("hw:numa_mem.N must add up to the flavor's memory.")
        return tuple(
            InstanceCell(index, part - dedicated, part & dedicated, size)
            for index, (part, size) in enumerate(zip(parts, sizes, strict=True))
        )

    def _numbered(self, name: str) -> list[str]:
        """Return the flavor's or the image's values of ``name.0``, ``name.1``, … up to the first missing number."""
        found: list[list[str]] = []
        for prefix, values in (("hw:", self._specs), ("hw_", self._properties)):
            listed: list[str] = []
            while (value := values.get(f"{prefix}{name}.{len(listed)}")) is not None:
                listed.append(str(value))
            found.append(listed)
        of_flavor, of_image = found
        if of_flavor and of_image:
            raise InvalidRequest(f"Image property hw_{name} may not override the flavor's hw:{name}.")
        return of_flavor or of_image


def _word(kind: type[W], name: str, value: str | None) -> W | None:
    if value is None:
        return None
    try:
        return kind(value)
    except ValueError:
        raise InvalidRequest(f"hw:{name} must be one of {', '.join(kind)}, not '{value}'.") from None


def _cpus(name: str, text: str) -> frozenset[int]:
    try:
        return parse_cpus(text)
    except ValueError as error:
        raise InvalidRequest(f"{name}: {error}.") from None


def _page_size(text: str) -> int | PageRequest:
    """Parse a page size. Return ``small``, ``large`` or ``any``, or the size in KiB.

    A number without a unit is in KiB. Units are bytes, bits and their multiples.
    """
    if text in list(PageRequest):
        return PageRequest(text)
    found = _PAGE_SIZE.fullmatch(text)
    if found is None:
        raise InvalidRequest(f"hw:mem_page_size must be 'small', 'large', 'any' or a size such as '2MB', not '{text}'.")
    number, prefix, unit = Fraction(found[1]), found[2], found[3]
    if prefix is None and unit is None:
        if "." in found[1]:
            raise InvalidRequest(f"hw:mem_page_size '{text}' is not a whole number of KiB; a fraction needs a unit.")
        size_kib = int(number)
    else:
        size_kib = int(number * 1024 ** _POWERS[prefix] / (8 if unit in {"b", "bit"} else 1) / 1024)
    if not size_kib:
        raise InvalidRequest(f"hw:mem_page_size '{text}' is less than 1 KiB.")
    return size_kib
