# SPDX-License-Identifier: Apache-2.0
"""[glance]: endpoints of the image service."""

from typing import Annotated, ClassVar

from kilonova.config.option import Option
from kilonova.records import dataclass


@dataclass(frozen=True, slots=True)
class GlanceSettings:
    """Endpoints of the image service. If no endpoint is configured, the images are those of the scenario."""

    GROUP: ClassVar[str] = "glance"

    endpoint_override: Annotated[str | None, Option("URL of the image service.")] = None
    api_servers: Annotated[
        tuple[str, ...],
        Option(
            "Several URLs of the image service, in place of endpoint_override. One URL is used until it does not "
            "answer, then the next URL."
        ),
    ] = ()

    @property
    def endpoints(self) -> tuple[str, ...]:
        """The URLs of the image service without trailing slashes; empty if none is configured."""
        named = self.api_servers or (self.endpoint_override or "",)
        return tuple(url.strip().rstrip("/") for url in named if url.strip())
