# SPDX-License-Identifier: Apache-2.0
"""Translation of CPU features, named as in libvirt, to standard traits."""

from collections.abc import Collection, Mapping

from kilonova.model.device_models import STANDARD_TRAITS

_X86, _ARM = "HW_CPU_X86_", "HW_CPU_AARCH64_"
#: x86 feature → names of its traits without the prefix. Any other feature has one trait, named like the feature.
_CALLED: Mapping[str, tuple[str, ...]] = {
    "aes": ("AESNI",),
    "amd-no-ssb": ("AMD_NO_SSB",),
    "amd-ssbd": ("AMD_SSBD",),
    "amx-bf16": ("AMXBF16",),
    "amx-int8": ("AMXINT8",),
    "amx-tile": ("AMXTILE",),
    "avx512-vpopcntdq": ("AVX512VPOPCNTDQ",),
    "bmi1": ("BMI",),
    "fma": ("FMA3",),
    "gfni": ("AVX512GFNI",),
    "hle": ("TSX",),
    "ibpb": ("AMD_IBPB",),
    "md-clear": ("INTEL_MD_CLEAR",),
    "pcid": ("INTEL_PCID",),
    "pclmuldq": ("CLMUL",),
    "pclmulqdq": ("CLMUL",),
    "pni": ("SSE3",),
    "rtm": ("TSX",),
    "sha-ni": ("SHA",),
    "spec-ctrl": ("INTEL_SPEC_CTRL",),
    "ssbd": ("INTEL_SSBD",),
    "sse4.1": ("SSE41",),
    "sse4.2": ("SSE42",),
    "svm": ("SVM", "AMD_SVM"),
    "vaes": ("AVX512VAES",),
    "virt-ssbd": ("AMD_VIRT_SSBD",),
    "vmx": ("VMX", "INTEL_VMX"),
    "vpclmulqdq": ("AVX512VPCLMULQDQ",),
}


def cpu_traits(architecture: str, features: Collection[str]) -> frozenset[str]:
    """Return the traits for the features of a guest's CPU; features without a trait are ignored."""
    if architecture == "aarch64":
        found = {_ARM + feature.upper() for feature in features}
    elif architecture in {"x86_64", "i686"}:
        found = {_X86 + name for feature in features for name in _CALLED.get(feature, (feature.upper(),))}
    else:
        found = set()
    return STANDARD_TRAITS & found
