# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

from kilonova.bundled_services.settings import (
    Account,
    CatalogEntry,
    GlanceSettings,
    KeystoneSettings,
    MetadataSettings,
    NeutronSettings,
    load_glance,
    load_keystone,
    load_metadata,
    load_neutron,
    save,
)
from kilonova.records import replace

SERVICE = Account("service", "p", "service", ("admin", "service"))


def test_settings_survive_being_written_and_read(tmp_path: Path) -> None:
    path = tmp_path / "settings.json"
    keystone = KeystoneSettings("/d", "::1", 5000, "RegionOne", (SERVICE,), (CatalogEntry("image", "glance", "u"),))
    save(keystone, path)
    assert load_keystone(path) == keystone
    glance = GlanceSettings("/d", "h", 9292, "u", "a", "RegionOne", SERVICE)
    save(glance, path)
    assert load_glance(path) == glance
    neutron = NeutronSettings("/d", "h", 9696, "a", "RegionOne", SERVICE)
    save(neutron, path)
    assert load_neutron(path) == neutron
    metadata = MetadataSettings("/run/agent.sock", "unix:/sb", "unix:/db", "kn-host", "/run/metadata.ctl")
    save(metadata, path)
    assert load_metadata(path) == metadata
    remote = replace(metadata, southbound="ssl:192.0.2.1:6642", certificate=("/tls", "metal-2"))
    save(remote, path)
    assert load_metadata(path) == remote
