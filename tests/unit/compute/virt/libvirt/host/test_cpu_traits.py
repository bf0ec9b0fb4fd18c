# SPDX-License-Identifier: Apache-2.0
"""CPU traits of a host, by architecture and CPU feature."""

from dataclasses import replace

import pytest

from kilonova.compute.virt.libvirt.host.cpu_traits import _CALLED, _X86, cpu_traits
from kilonova.config.libvirt import LibvirtSettings
from kilonova.model.device_models import STANDARD_TRAITS
from support.libvirt_hosts import debian_12, traits_with

_NO_TPM, _TPM = LibvirtSettings(), LibvirtSettings(swtpm_enabled=True)


@pytest.mark.parametrize(
    ("architecture", "feature", "traits"),
    [
        ("x86_64", "avx2", {"HW_CPU_X86_AVX2"}),
        ("x86_64", "sse4.1", {"HW_CPU_X86_SSE41"}),
        ("x86_64", "pni", {"HW_CPU_X86_SSE3"}),
        ("x86_64", "aes", {"HW_CPU_X86_AESNI"}),
        ("x86_64", "svm", {"HW_CPU_X86_SVM", "HW_CPU_X86_AMD_SVM"}),
        ("x86_64", "vmx", {"HW_CPU_X86_VMX", "HW_CPU_X86_INTEL_VMX"}),
        ("x86_64", "3dnow", {"HW_CPU_X86_3DNOW"}),
        ("x86_64", "avx512-vpopcntdq", {"HW_CPU_X86_AVX512VPOPCNTDQ"}),
        ("x86_64", "apic", set()),
        ("aarch64", "aes", {"HW_CPU_AARCH64_AES"}),
        ("aarch64", "sve", {"HW_CPU_AARCH64_SVE"}),
        ("s390x", "aes", set()),
    ],
)
def test_features_of_cpus(architecture: str, feature: str, traits: set[str]) -> None:
    assert cpu_traits(architecture, [feature]) == traits


def test_every_name_that_differs_is_that_of_a_standard_trait() -> None:
    assert {_X86 + name for names in _CALLED.values() for name in names} <= STANDARD_TRAITS


def test_the_features_are_those_of_guests() -> None:
    host = replace(debian_12(), guest_features=frozenset({"aes", "avx2"}))
    assert traits_with(host, "HW_CPU_X86_") == {"AESNI", "AVX2"}
