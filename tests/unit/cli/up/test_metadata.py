# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

from kilonova.bundled_services.ovn import Ovn
from kilonova.cli.up.metadata import MetadataPart


def test_each_start_has_a_secret_of_its_own(tmp_path: Path) -> None:
    parts = [MetadataPart(Ovn(tmp_path, "metal"), "http://127.0.0.1:8774") for _ in range(2)]
    secrets = {part.options()["neutron"]["metadata_proxy_shared_secret"] for part in parts}
    assert len(secrets) == 2
    assert all(part.process.ended() for part in parts)
