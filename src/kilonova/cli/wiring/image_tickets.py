# SPDX-License-Identifier: Apache-2.0
"""Builds the parts for transfers of image data to hosts: signed tickets, and Kilonova's own session at Glance."""

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
    """Return the issuer of tickets. If the database has no signing key yet, create one."""

    def load() -> tuple[TicketKey, ...]:
        with database.read(patient=True) as connection:
            keys = ticket_keys.list_all(connection)
        return tuple(TicketKey(key.id, key.secret, epoch_of(key.created_at)) for key in keys)

    if not load():
        database.write(ticket_keys.ensure)
    return TicketOffice(load, database.clock.seconds, settings.images.ticket_lifetime_s)


def image_store(settings: Settings, session: Any) -> ImageStore | None:
    """Return the store of image data, or None if there is no session at the image service."""
    if session is None:
        return None
    from kilonova.images.glance_data import GlanceData  # noqa: PLC0415 - brings an HTTP client

    return GlanceData(session, *settings.glance.endpoints)


def image_keeper(settings: Settings, session: Any) -> ImageKeeper | None:
    """Return the client that reads and removes images as Kilonova's own user, or None if there is no session."""
    if session is None:
        return None
    from kilonova.images.glance_keeper import GlanceKeeper  # noqa: PLC0415 - brings an HTTP client

    return GlanceKeeper(session, *settings.glance.endpoints)


def image_session(settings: Settings) -> Any:
    """Return the session of Kilonova's own user at the image service, or None. Raises: ConfigurationError."""
    if not settings.glance.endpoints:
        return None
    from kilonova.identity.keystone import image_session_of  # noqa: PLC0415 - brings an HTTP client

    session = image_session_of(settings.conf)
    if session is None:
        LOG.warning("Hosts get no image data: neither [glance] nor [service_user] has credentials of Kilonova's user")
    return session


class ImageOffers:
    """Returns the URLs and tickets with which hosts download and upload image data."""

    def __init__(self, settings: Settings, office: TicketOffice, *, available: bool) -> None:
        endpoint = settings.images.endpoint or _endpoint_of(settings)
        self._images = ImagesForHosts(office, endpoint.rstrip("/"), settings.images.shared_folder)
        self._available = available

    def to_read(self, host: str, image: Image) -> ImageData | None:
        """Return the URL and ticket with which a host downloads an image, or None if hosts cannot get image data."""
        return self._images.to_read(host, image) if self._available else None

    def to_write(self, host: str, image_id: str) -> ImageData | None:
        """Return the URL and ticket for a host's upload of image data, or None if hosts cannot get image data."""
        return self._images.to_write(host, image_id) if self._available else None


def _endpoint_of(settings: Settings) -> str:
    """Return the URL at which other machines reach this process."""
    url = addresses.Address(*settings.api.bind).public_url
    return url.replace("http:", "https:", 1) if settings.api.cert_file else url
