# SPDX-License-Identifier: Apache-2.0
"""Access of hosts to image data: the path in a shared folder, and a ticket that is valid for one host only."""

from pathlib import Path
from urllib.parse import quote

from kilonova.images.tickets import Direction, TicketOffice
from kilonova.model.image import Image
from kilonova.model.image_data import ImageData
from kilonova.records import dataclass


@dataclass(frozen=True, slots=True)
class ImagesForHosts:
    """Builds the descriptions with which hosts read and write image data.

    ``endpoint``: URL at which hosts reach the control processes. ``shared_folder``: path, on the hosts, of the folder
    with the image service's files, each named after its image; None if hosts do not share this folder.
    """

    office: TicketOffice
    endpoint: str
    shared_folder: Path | None = None

    def to_read(self, host: str, image: Image) -> ImageData:
        """Return the description with which ``host`` downloads an image.

        To be called just before the description is sent, because the ticket in it expires.
        """
        location = "" if self.shared_folder is None else (self.shared_folder / quote(image.id, safe="")).as_uri()
        return ImageData(
            image.id,
            location,
            self._url(host, image.id),
            self.office.issue(host, image.id, Direction.READ),
            image.size_bytes,
            image.hash_algo,
            image.hash_value,
            image.disk_format,
        )

    def to_write(self, host: str, image_id: str) -> ImageData:
        """Return the description with which ``host`` uploads the data of an image that is registered without data."""
        return ImageData(
            image_id, url=self._url(host, image_id), ticket=self.office.issue(host, image_id, Direction.WRITE)
        )

    def _url(self, host: str, image_id: str) -> str:
        return f"{self.endpoint}/agents/v1/hosts/{quote(host, safe='')}/images/{quote(image_id, safe='')}/file"
