# SPDX-License-Identifier: Apache-2.0
"""[healthcheck]."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar

from kilonova.config.option import Option


@dataclass(frozen=True, slots=True)
class HealthSettings:
    """What else makes ``/healthcheck`` answer 503."""

    GROUP: ClassVar[str] = "healthcheck"

    disable_by_file_path: Annotated[
        Path | None,
        Option("File that makes /healthcheck answer 503 for as long as it is there, so that no new requests come."),
    ] = None
