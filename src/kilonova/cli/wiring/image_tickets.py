# SPDX-License-Identifier: Apache-2.0
"""Wire how hosts get the data of images: tickets signed with the database's keys, and Kilonova's user at Glance."""

import logging
from typing import Any

from kilonova.cli.wiring import addresses
from kilonova.conductor.guest_data.image_keeper import ImageKeeper
from kilonova.config.settings import Settings
from kilonova.db import ticket_keys
from kilonova.db.core.clock import epoch_of
from kilonova.db.database import Database
from kilonova.images.data import ImageStore
from kilonova.images.for_hosts import ImagesForHosts
from kilonova.images.tickets import TicketKey, TicketOffice
from kilonova.model.image import Image
from kilonova.model.image_data import ImageData

LOG = logging.getLogger(__name__)


def ticket_office(settings: Settings, database: Database) -> TicketOffice:
    """Return who issues and checks tickets; the first process on a database makes the key."""

    def load() -> tuple[TicketKey, ...]:
        with database.read(patient=True) as connection:
            keys = ticket_keys.list_all(connection)
        return tuple(TicketKey(key.id, key.secret, epoch_of(key.created_at)) for key in keys)

    if not load():
        database.write(ticket_keys.ensure)
    return TicketOffice(load, database.clock.seconds, settings.images.ticket_lifetime_s)


def image_store(settings: Settings, session: Any) -> ImageStore | None:
    """Return who has the data of images."""
    if session is None:
        return None
    from kilonova.images.glance_data import GlanceData  # noqa: PLC0415 - brings an HTTP client

    return GlanceData(session, *settings.glance.endpoints)


def image_keeper(settings: Settings, session: Any) -> ImageKeeper | None:
    """Return who looks at images and removes them for nobody's request."""
    if session is None:
        return None
    from kilonova.images.glance_keeper import GlanceKeeper  # noqa: PLC0415 - brings an HTTP client

    return GlanceKeeper(session, *settings.glance.endpoints)


def image_session(settings: Settings) -> Any:
    """Return Kilonova's session at the image service, None where there is none. Raises: ConfigurationError."""
    if not settings.glance.endpoints:
        return None
    from kilonova.identity.keystone import image_session_of  # noqa: PLC0415 - brings an HTTP client

    session = image_session_of(settings.conf)
    if session is None:
        LOG.warning("Neither [glance] nor [service_user] says who Kilonova's user is: hosts get no image data")
    return session


class ImageOffers:
    """What hosts are told of the data of images: nothing where they could not get it."""

    def __init__(self, settings: Settings, office: TicketOffice, *, available: bool) -> None:
        endpoint = settings.images.endpoint or _endpoint_of(settings)
        self._images = ImagesForHosts(office, endpoint.rstrip("/"), settings.images.shared_folder)
        self._available = available

    def to_read(self, host: str, image: Image) -> ImageData | None:
        """Return how a host gets an image."""
        return self._images.to_read(host, image) if self._available else None

    def to_write(self, host: str, image_id: str) -> ImageData | None:
        """Return how a host brings the data of an image that has none yet."""
        return self._images.to_write(host, image_id) if self._available else None


def _endpoint_of(settings: Settings) -> str:
    """Return the URL of what this process listens on, as other machines reach it."""
    url = addresses.Address(*settings.api.bind).public_url
    return url.replace("http:", "https:", 1) if settings.api.cert_file else url
