# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

from kilonova.bundled_services.ovn import Ovn
from kilonova.cli.up.metadata import MetadataPart


def test_the_metadata_service_knows_the_agent_and_no_secret(tmp_path: Path) -> None:
    ovn = Ovn(tmp_path, "metal")
    part = MetadataPart(ovn)
    assert part.options() == {"DEFAULT": {"metadata_socket": ovn.agent}}
    assert ovn.metadata_settings().agent == ovn.agent
    assert part.process.ended()
