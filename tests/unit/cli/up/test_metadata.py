# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

from kilonova.bundled_services.ovn import Ovn
from kilonova.cli.up.metadata import MetadataPart


def test_the_metadata_service_knows_the_agent_and_no_secret(tmp_path: Path) -> None:
    (host,) = Ovn(tmp_path, "metal").hosts
    part = MetadataPart(host, "metadata")
    assert part.options() == {"DEFAULT": {"metadata_socket": host.agent}}
    assert host.metadata_settings().agent == host.agent
    assert part.process.ended()
