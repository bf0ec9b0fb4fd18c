# SPDX-License-Identifier: Apache-2.0
"""[fake]: simulated hosts."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar

from kilonova.config.option import Option


@dataclass(frozen=True, slots=True)
class FakeSettings:
    """The simulated hosts of this process.

    ``scenario`` shapes them, ``host_names`` says which of them are here. Without either they are ``node1`` … ``nodeN``,
    with another ``host_prefix`` for ``node`` if there is one.
    """

    GROUP: ClassVar[str] = "fake"

    hosts: Annotated[int, Option("Simulated hosts in this process (Kilonova's own).", min=0)] = 0
    host_prefix: Annotated[
        str, Option("What the names of simulated hosts begin with, before their number (Kilonova's own).")
    ] = "node"
    host_names: Annotated[
        tuple[str, ...],
        Option("Names of the simulated hosts, or of those of the scenario's that are here (Kilonova's own)."),
    ] = ()
    read_images: Annotated[
        bool,
        Option("Whether simulated hosts fetch the images of their guests, as real ones would (Kilonova's own)."),
    ] = True
    state_dir: Annotated[Path | None, Option("Where simulated hypervisors keep their guests.")] = None
    scenario: Annotated[Path | None, Option("YAML file that names and shapes the hosts.")] = None
