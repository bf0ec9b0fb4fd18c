# SPDX-License-Identifier: Apache-2.0
from kilonova.compute.virt.libvirt.host.device_types import models_of


def test_a_model_is_supported_by_a_device_for_any_bus() -> None:
    assert models_of("hw_vif_model", {"virtio-net-ccw", "rtl8139", "unknown"}) == {"virtio", "rtl8139"}
    assert models_of("hw_scsi_model", {"lsi53c895a"}) == {"lsilogic"}
    assert models_of("hw_sound_model", set()) == frozenset()
