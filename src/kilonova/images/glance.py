# SPDX-License-Identifier: Apache-2.0
"""Images from Glance, read with the user's own token and cached briefly for each project."""

import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import quote

from cachetools import TTLCache
from keystoneauth1 import exceptions
from keystoneauth1.session import Session

from kilonova.errors import Conflict, Forbidden, InvalidRequest, NotFound, Unavailable
from kilonova.images.endpoints import Endpoints
from kilonova.logs import outgoing
from kilonova.logs.request_context import outgoing_headers
from kilonova.model.image import Image
from kilonova.model.image_vocabulary import is_standard
from kilonova.model.new_image import NewImage

LOG = logging.getLogger(__name__)
_TIMEOUT_S = 10.0
_RETRIES = 2
_RETRY_DELAY_S = 0.1
_KEPT_S = 5.0
_KEPT_IMAGES = 4096
_OK, _CREATED = 200, 201


class GlanceImages:
    """An ``ImageSource`` that reads Glance. ``endpoints``: URLs of Glance without ``/v2``."""

    def __init__(self, *endpoints: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._glance = Endpoints(
            Session(timeout=_TIMEOUT_S),
            endpoints,
            connect_retries=_RETRIES,
            connect_retry_delay=_RETRY_DELAY_S,
            status_code_retries=_RETRIES,
            status_code_retry_delay=_RETRY_DELAY_S,
        )
        self._lock = threading.Lock()
        self._kept: TTLCache[tuple[str, str], Image] = TTLCache(_KEPT_IMAGES, _KEPT_S, timer=clock)

    def get(self, image_id: str, *, token: str | None, project_id: str) -> Image:
        key = (image_id, project_id)
        with self._lock:
            kept = self._kept.get(key)
        if kept is not None:
            return kept
        image = self._fetch(image_id, token)
        with self._lock:
            self._kept[key] = image
        return image

    def named(self, name: str, *, token: str | None, project_id: str) -> tuple[Image, ...]:
        del project_id  # the token determines the project
        answer = self._ask(f"/v2/images?name=in:{quote(quoted(name), safe='')}", token)
        if answer.status_code != _OK:
            raise Unavailable(f"The image service answered {answer.status_code}.")
        return tuple(image for image in map(image_of, answer.json()["images"]) if image.name == name)

    def list(self, *, token: str | None) -> Sequence[Image]:
        both = (self._pages(f"/v2/images?visibility=all&os_hidden={hidden}", token) for hidden in ("false", "true"))
        return tuple(image_of(content) for pages in both for page in pages for content in page["images"])

    def create(self, image: NewImage, *, token: str | None) -> None:
        body = {
            **image.properties,
            "id": image.id,
            "name": image.name,
            "visibility": "private",
            "disk_format": image.disk_format,
            "container_format": image.container_format,
            "min_ram": image.min_memory_mib,
            "min_disk": image.min_disk_gib,
        }
        headers = {"X-Auth-Token": token or "", **outgoing_headers()}
        try:
            answer = self._glance.request(
                "/v2/images",
                "POST",
                json=body,
                headers=headers,
                authenticated=False,
                connect_retries=0,  # do not retry: a request that failed halfway may have created the image
                status_code_retries=0,
            )
        except exceptions.ClientException as error:
            raise Unavailable("The image service cannot be reached.") from error
        outgoing.tell(LOG, "the image service", "POST", "/v2/images", answer.status_code, answer.headers)
        if answer.status_code != _CREATED:
            raise _refusal(answer)

    def _pages(self, path: str, token: str | None) -> Iterator[Mapping[str, Any]]:
        following: str | None = path
        while following:
            answer = self._ask(following, token)
            if answer.status_code != _OK:
                raise Unavailable(f"The image service answered {answer.status_code}.")
            page = answer.json()
            yield page
            following = page.get("next")

    def _fetch(self, image_id: str, token: str | None) -> Image:
        answer = self._ask(f"/v2/images/{quote(image_id, safe='')}", token)
        if answer.status_code in {400, 403, 404}:
            raise NotFound(f"Image {image_id} could not be found.")
        if answer.status_code != _OK:
            raise Unavailable(f"The image service answered {answer.status_code}.")
        return image_of(answer.json())

    def _ask(self, path: str, token: str | None) -> Any:
        """Send a GET request; return the response, even if its status is an error.

        The request is retried if the service is unreachable or answers 503.
        """
        headers = {"X-Auth-Token": token or "", **outgoing_headers()}
        try:
            answer = self._glance.request(path, "GET", headers=headers, authenticated=False)
        except exceptions.ClientException as error:
            raise Unavailable("The image service cannot be reached.") from error
        outgoing.tell(LOG, "the image service", "GET", path, answer.status_code, answer.headers)
        return answer


def quoted(value: str) -> str:
    """Return a filter value in quotes: Glance reads a bare comma or colon as its own syntax."""
    return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _refusal(answer: Any) -> Exception:
    """Return the error for a refused creation of an image."""
    said = f"The image service refused to create the image: {answer.status_code}."
    match answer.status_code:
        case 400:
            return InvalidRequest(said)
        case 401 | 403 | 413:
            return Forbidden(said)
        case 409:
            return Conflict(said)
    return Unavailable(f"The image service answered {answer.status_code}.")


def image_of(content: Mapping[str, Any]) -> Image:
    """Parse an image of the Image API v2; every key that is not a standard attribute becomes a property."""
    properties = {key: str(value) for key, value in content.items() if not is_standard(key) and value is not None}
    return Image(
        id=content["id"],
        name=content.get("name") or "",
        status=content["status"],
        disk_format=content.get("disk_format") or "",
        container_format=content.get("container_format") or "",
        min_memory_mib=content.get("min_ram") or 0,
        min_disk_gib=content.get("min_disk") or 0,
        size_bytes=content.get("size") or 0,
        properties=properties,
        hash_algo=content.get("os_hash_algo") or "",
        hash_value=content.get("os_hash_value") or "",
    )
