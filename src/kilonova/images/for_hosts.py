# SPDX-License-Identifier: Apache-2.0
"""What hosts are told of the data of images: the location of a store that they share, and a ticket of their own."""

from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from kilonova.images.tickets import Direction, TicketOffice
from kilonova.model.image import Image
from kilonova.model.image_data import ImageData


@dataclass(frozen=True, slots=True)
class ImagesForHosts:
    """``endpoint``: the control processes as hosts reach them.

    ``shared_folder``: where hosts see the files of the image service, each named like its image; None for nowhere.
    """

    office: TicketOffice
    endpoint: str
    shared_folder: Path | None = None

    def to_read(self, host: str, image: Image) -> ImageData:
        """Return how a host gets an image. Make it when it is sent: the ticket in it expires."""
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
        """Return how a host brings the data of an image that is there, without data, in the image service."""
        return ImageData(
            image_id, url=self._url(host, image_id), ticket=self.office.issue(host, image_id, Direction.WRITE)
        )

    def _url(self, host: str, image_id: str) -> str:
        return f"{self.endpoint}/agents/v1/hosts/{quote(host, safe='')}/images/{quote(image_id, safe='')}/file"
