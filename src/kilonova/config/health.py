# SPDX-License-Identifier: Apache-2.0
"""[healthcheck]: options of ``/healthcheck``."""

from pathlib import Path
from typing import Annotated, ClassVar

from kilonova.config.option import Option
from kilonova.records import dataclass


@dataclass(frozen=True, slots=True)
class HealthSettings:
    """Options of the health check."""

    GROUP: ClassVar[str] = "healthcheck"

    disable_by_file_path: Annotated[
        Path | None,
        Option("While this file exists, /healthcheck answers 503, so that load balancers send no new requests."),
    ] = None
