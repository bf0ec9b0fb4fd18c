# SPDX-License-Identifier: Apache-2.0
"""A server on its host, with the attributes that placement rules check."""

from kilonova.model.flavor import Flavor
from kilonova.model.image import Image
from kilonova.records import dataclass


@dataclass(frozen=True, slots=True)
class PlacedServer:
    """A server that has a host. ``image``: the image as it was when the server was created; None if unknown."""

    uuid: str
    name: str
    host: str
    project_id: str
    flavor: Flavor
    image: Image | None
