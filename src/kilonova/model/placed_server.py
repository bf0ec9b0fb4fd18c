# SPDX-License-Identifier: Apache-2.0
"""A server where it is, with what rules about places ask of it."""

from dataclasses import dataclass

from kilonova.model.flavor import Flavor
from kilonova.model.image import Image


@dataclass(frozen=True, slots=True)
class PlacedServer:
    """A server that has a host. ``image`` with the properties that it had when the server was made, None if unknown."""

    uuid: str
    name: str
    host: str
    project_id: str
    flavor: Flavor
    image: Image | None
