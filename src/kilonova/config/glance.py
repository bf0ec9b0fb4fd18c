# SPDX-License-Identifier: Apache-2.0
"""[glance]: the image service."""

from dataclasses import dataclass
from typing import Annotated, ClassVar

from kilonova.config.option import Option


@dataclass(frozen=True, slots=True)
class GlanceSettings:
    """Without an endpoint the images are those of the scenario."""

    GROUP: ClassVar[str] = "glance"

    endpoint_override: Annotated[str | None, Option("URL of the image service.")] = None
