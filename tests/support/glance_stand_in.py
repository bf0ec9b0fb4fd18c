# SPDX-License-Identifier: Apache-2.0
"""Fake Glance with the API calls that a control process uses; the test holds its images in memory."""

import hashlib
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl

from support.http_clients import serving

_FILTERS = {"visibility", "sort", "limit"}


@dataclass
class GlanceStandIn:
    """Fake Glance. ``images``: image id → data, or None while the image is queued; all users may use them.

    ``lost``: images that are listed, but whose data is missing. ``properties``: image id → its other properties.
    ``refuses``: the error status of image creation; None creates the image and returns 201.
    """

    images: dict[str, bytes | None] = field(default_factory=dict)
    lost: set[str] = field(default_factory=set)
    reads: list[str] = field(default_factory=list)
    properties: dict[str, dict[str, Any]] = field(default_factory=dict)
    refuses: int | None = None
    tokens: list[str] = field(default_factory=list)

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> list[bytes]:
        _, _, _, *rest = environ["PATH_INFO"].split("/")
        status, answer = self._answer(environ, *rest)
        start_response(f"{status} Whatever", [])
        return [answer if isinstance(answer, bytes) else json.dumps(answer).encode()] if answer is not None else []

    def _answer(self, environ: dict[str, Any], *path: str) -> tuple[int, Any]:
        match environ["REQUEST_METHOD"], *path:
            case "POST", *_:
                return self._create(environ, json.loads(environ["wsgi.input"].read()))
            case ("GET",):
                wanted = [pair for pair in parse_qsl(environ["QUERY_STRING"]) if pair[0] not in _FILTERS]
                found = [self.shown(image_id) for image_id in reversed(list(self.images))]
                return 200, {"images": [each for each in found if all(each.get(k) == v for k, v in wanted)]}
            case _, image_id, *_ if image_id not in self.images:
                return 404, None
            case "GET", image_id:
                return 200, self.shown(image_id)
            case "GET", image_id, _ if image_id in self.lost:
                return 404, None
            case "GET", image_id, _:
                self.reads.append(image_id)
                return 200, self.images[image_id]
            case "PUT", image_id, _:
                self.images[image_id] = environ["wsgi.input"].read()
                return 204, None
            case "DELETE", image_id:
                del self.images[image_id]
                return 204, None
        raise AssertionError(path)

    def _create(self, environ: dict[str, Any], asked: dict[str, Any]) -> tuple[int, Any]:
        self.tokens.append(environ["HTTP_X_AUTH_TOKEN"])
        if self.refuses is not None:
            return self.refuses, None
        self.images[asked["id"]] = None
        self.properties[asked["id"]] = {**asked, "owner": "wonder"}
        return 201, self.shown(asked["id"])

    def all(self) -> dict[str, dict[str, Any]]:
        """Return image id → its ``properties`` and ``data`` (None while the image is queued)."""
        return {
            image_id: {"properties": self.properties.get(image_id, {}), "data": data}
            for image_id, data in dict(self.images).items()
        }

    def shown(self, image_id: str) -> dict[str, Any]:
        """Return the API representation of an image."""
        data = self.images[image_id]
        image = {"id": image_id, "name": "own", **self.properties.get(image_id, {})}
        if data is None:
            return {**image, "status": "queued"}
        hashed = {"os_hash_algo": "sha512", "os_hash_value": hashlib.sha512(data).hexdigest()}
        return {**image, "status": "active", "size": len(data), **hashed}


@dataclass
class ImageCloud:
    """Fake Glance and the fixed address of a control process, which the test later sets as ``application``."""

    glance: GlanceStandIn
    options: str
    application: Any = None

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Any:
        return self.application(environ, start_response)


@contextmanager
def image_cloud(images: dict[str, bytes]) -> Iterator[ImageCloud]:
    """Serve the fake Glance and the control process. ``options``: the configuration text for the control process."""
    cloud = ImageCloud(GlanceStandIn(dict(images)), "")
    streams = lambda method, _path: method == "PUT"  # noqa: E731
    with serving(cloud.glance, streams=streams) as glance, serving(cloud, streams=streams) as control:
        cloud.options = (
            f"[glance]\nendpoint_override = http://127.0.0.1:{glance.port}\n[service_user]\nauth_type = none\n"
            f"[images]\nendpoint = http://127.0.0.1:{control.port}/\n"
        )
        yield cloud
