# SPDX-License-Identifier: Apache-2.0
"""As much of Glance as a control process asks, with images that a test holds in its hand."""

import hashlib
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from support.http_clients import serving


@dataclass
class GlanceStandIn:
    """Has ``images`` that everybody may use. ``lost``: images that are shown, and whose data is gone."""

    images: dict[str, bytes] = field(default_factory=dict)
    lost: set[str] = field(default_factory=set)
    reads: list[str] = field(default_factory=list)

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> list[bytes]:
        _, _, _, image_id, *rest = environ["PATH_INFO"].split("/")
        data = self.images.get(image_id)
        if data is None or (rest and image_id in self.lost):
            start_response("404 Not Found", [])
            return []
        start_response("200 OK", [])
        if rest:
            self.reads.append(image_id)
            return [data]
        image = {"id": image_id, "name": "own", "status": "active", "size": len(data)}
        image |= {"os_hash_algo": "sha512", "os_hash_value": hashlib.sha512(data).hexdigest()}
        return [json.dumps(image).encode()]


@dataclass
class ImageCloud:
    """A Glance and the address of a control process that is started later, as ``application``."""

    glance: GlanceStandIn
    options: str
    application: Any = None

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Any:
        return self.application(environ, start_response)


@contextmanager
def image_cloud(images: dict[str, bytes]) -> Iterator[ImageCloud]:
    """Serve both. ``options``: what a control process is told of them."""
    cloud = ImageCloud(GlanceStandIn(images), "")
    with serving(cloud.glance) as glance, serving(cloud) as control:
        cloud.options = (
            f"[glance]\nendpoint_override = http://127.0.0.1:{glance.port}\n[service_user]\nauth_type = none\n"
            f"[images]\nendpoint = http://127.0.0.1:{control.port}/\n"
        )
        yield cloud
