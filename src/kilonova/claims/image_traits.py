# SPDX-License-Identifier: Apache-2.0
"""Check that the providers which a server already uses have the traits that an image requires."""

from sqlalchemy.engine import Connection

from kilonova.db import provider_traits
from kilonova.errors import NoValidHost
from kilonova.model.image import Image
from kilonova.scheduler.resources import image_traits


def require_traits(connection: Connection, instance_uuid: str, image: Image | None) -> None:
    """Raise NoValidHost unless the providers of a server's allocations have the traits that the image requires."""
    required = image_traits(image)
    if not required:
        return
    missing = required - provider_traits.of_consumer(connection, instance_uuid)
    if missing:
        raise NoValidHost(
            f"No valid host was found. The image requires {', '.join(sorted(missing))}, which the host of the server"
            " does not have."
        )
