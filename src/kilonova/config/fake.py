# SPDX-License-Identifier: Apache-2.0
"""[fake]: simulated hosts."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar

from kilonova.config.option import Option


@dataclass(frozen=True, slots=True)
class FakeSettings:
    """The simulated hosts of this process. ``scenario`` shapes them; without one they are ``node1`` … ``nodeN``."""

    GROUP: ClassVar[str] = "fake"

    hosts: Annotated[int, Option("Simulated hosts in this process (Kilonova's own).", min=0)] = 0
    read_images: Annotated[
        bool,
        Option("Whether simulated hosts fetch the images of their guests, as real ones would (Kilonova's own)."),
    ] = True
    state_dir: Annotated[Path | None, Option("Where simulated hypervisors keep their guests.")] = None
    scenario: Annotated[Path | None, Option("YAML file that names and shapes the hosts.")] = None
