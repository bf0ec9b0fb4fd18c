# SPDX-License-Identifier: Apache-2.0
"""Options of the metadata service, for control processes and for agents of hosts."""

from pathlib import Path
from typing import Annotated, ClassVar

from kilonova.config.option import Option
from kilonova.records import dataclass


@dataclass(frozen=True, slots=True)
class MetadataSettings:
    """Options of the metadata service. Units: seconds where the name ends in ``_s``."""

    GROUP: ClassVar[str] = "api"

    cache_expiration_s: Annotated[
        int,
        Option(
            "Seconds for which a control process or an agent keeps the metadata of a guest in memory.",
            name="metadata_cache_expiration",
            min=0,
        ),
    ] = 15
    socket: Annotated[
        Path | None,
        Option(
            "Unix socket at which the agent of a host takes requests for metadata from its host's metadata service; "
            "unset: it takes none (Kilonova's own).",
            name="metadata_socket",
            group="DEFAULT",
        ),
    ] = None
