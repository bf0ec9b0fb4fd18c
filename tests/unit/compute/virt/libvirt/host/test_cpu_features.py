# SPDX-License-Identifier: Apache-2.0
"""Which CPUs libvirt is asked about, and what is made of its answer."""

import pytest

from kilonova.compute.virt.libvirt.host.cpu_features import features_of, guest_cpu, host_cpu
from kilonova.config.libvirt import LibvirtSettings
from support.libvirt_hosts import text_of

_EXPANDED = """<cpu><model>EPYC</model><feature policy='require' name='aes'/><feature policy='require' name='svm'/>
<feature policy='require' name='vme'/><feature policy='disable' name='rdseed'/></cpu>"""


@pytest.mark.parametrize("mode", ["", "host-model", "host-passthrough"])
def test_guests_have_the_model_of_the_host(mode: str) -> None:
    asked = guest_cpu(text_of("two-sockets", "q35"), "x86_64", LibvirtSettings(cpu_mode=mode))
    assert asked is not None
    assert "<arch>x86_64</arch>" in asked
    assert "EPYC-Milan" in asked
    assert 'name="vaes"' in asked


def test_guests_have_the_model_that_operators_name() -> None:
    settings = LibvirtSettings(cpu_mode="custom", cpu_models=("Nehalem", "EPYC"))
    asked = guest_cpu(text_of("two-sockets", "q35"), "x86_64", settings)
    assert asked == "<cpu><arch>x86_64</arch><model>Nehalem</model></cpu>"


def test_nothing_is_asked_where_the_emulator_decides_or_there_is_no_model() -> None:
    assert guest_cpu(text_of("two-sockets", "q35"), "x86_64", LibvirtSettings(cpu_mode="none")) is None
    assert guest_cpu(text_of("arm", "virt"), "aarch64", LibvirtSettings()) is None
    assert guest_cpu(text_of("arm", "virt"), "aarch64", LibvirtSettings(cpu_mode="custom")) is None


def test_features_that_were_disabled_are_none_even_if_libvirt_names_them() -> None:
    asked = "<cpu><model>EPYC</model><feature policy='disable' name='vme'/></cpu>"
    assert features_of(_EXPANDED, asked) == {"aes", "svm"}


def test_flags_of_operators_add_and_take_away() -> None:
    assert features_of(_EXPANDED, "<cpu/>", ["-svm", "+pcid", "SSBD"]) == {"aes", "vme", "pcid", "ssbd"}


def test_the_cpu_of_the_host_is_taken_as_it_is() -> None:
    found = host_cpu(text_of("two-sockets", "capabilities"))
    assert found is not None
    assert "<model>EPYC-Milan</model>" in found
    assert host_cpu("<capabilities><host><cpu><arch>aarch64</arch></cpu></host></capabilities>") is None
