# SPDX-License-Identifier: Apache-2.0
"""Scripts, styles and pictures. Their address contains the digest of all of them, so that browsers keep them."""

import gzip
import hashlib
from pathlib import Path

import falcon
import falcon.asgi

_FOLDER = Path(__file__).with_name("static")
_TYPES = {".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8", ".svg": "image/svg+xml"}
_FOR_EVER = "public, max-age=31536000, immutable"


class Assets:
    """The files of a folder, read once, plain and compressed."""

    def __init__(self, folder: Path = _FOLDER) -> None:
        files = {path.name: path.read_bytes() for path in sorted(folder.iterdir()) if path.suffix in _TYPES}
        digest = hashlib.sha256(b"".join(name.encode() + data for name, data in files.items()))
        self.release = digest.hexdigest()[:12]
        self._files = {
            name: (_TYPES[Path(name).suffix], data, gzip.compress(data, 9, mtime=0)) for name, data in files.items()
        }

    async def on_get(self, req: falcon.asgi.Request, resp: falcon.asgi.Response, release: str, name: str) -> None:
        """GET /static/{release}/{name}.  A file of another release is sent, too, but is not to be kept."""
        if name not in self._files:
            raise falcon.HTTPNotFound
        resp.content_type, resp.data, packed = self._files[name]
        keeps = _FOR_EVER if release == self.release else "no-cache"
        resp.set_headers({"Cache-Control": keeps, "Vary": "Accept-Encoding"})
        if "gzip" in (req.get_header("Accept-Encoding") or ""):
            resp.data = packed
            resp.set_header("Content-Encoding", "gzip")
