# SPDX-License-Identifier: Apache-2.0
"""[fake]: options of simulated hosts."""

from pathlib import Path
from typing import Annotated, ClassVar

from kilonova.config.option import Option
from kilonova.records import dataclass


@dataclass(frozen=True, slots=True)
class FakeSettings:
    """The simulated hosts of this process.

    ``scenario`` describes the hosts; ``host_names`` selects the hosts that this process runs. If neither is set, the
    hosts are named ``node1`` … ``nodeN``; ``host_prefix`` replaces ``node``.
    """

    GROUP: ClassVar[str] = "fake"

    hosts: Annotated[int, Option("Number of simulated hosts in this process (Kilonova's own).", min=0)] = 0
    host_prefix: Annotated[
        str, Option("Prefix of the names of simulated hosts, before their number (Kilonova's own).")
    ] = "node"
    host_names: Annotated[
        tuple[str, ...],
        Option(
            "Names of the simulated hosts of this process; with a scenario: which of its hosts this process runs "
            "(Kilonova's own)."
        ),
    ] = ()
    read_images: Annotated[
        bool,
        Option("Whether simulated hosts download the images of their guests, as real hosts do (Kilonova's own)."),
    ] = True
    state_dir: Annotated[Path | None, Option("Folder in which simulated hypervisors store their guests.")] = None
    scenario: Annotated[Path | None, Option("Scenario: YAML file with the names and resources of the hosts.")] = None
