# SPDX-License-Identifier: Apache-2.0
"""Static files of noVNC, served at the same address as the consoles."""

import mimetypes
from http import HTTPStatus
from pathlib import Path
from urllib.parse import unquote, urlsplit

from websockets.datastructures import Headers
from websockets.http11 import Request, Response

#: Name of a noVNC page in old versions → its name in newer versions of noVNC.
_OTHER_NAMES = {"vnc_auto.html": "vnc_lite.html"}
_READ = frozenset({"GET", "HEAD"})
_LARGEST = 16 << 20
_MISSING = """<!DOCTYPE html>
<html lang="en"><head><title>Consoles</title></head><body>
<h1>noVNC is missing</h1>
<p>This console proxy works, but it has no viewer for browsers. Install noVNC on its machine (on Debian and
Ubuntu: <code>apt-get install novnc</code>), or set <code>[DEFAULT] web</code> to the folder of noVNC.</p>
</body></html>
"""


class WebFiles:
    """Answers requests that open no console. ``folder``: folder of the noVNC files; None: no files are served."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder.resolve() if folder is not None else None

    @property
    def are_there(self) -> bool:
        return self._folder is not None and self._folder.is_dir()

    def answer(self, request: Request) -> Response:
        """Return the response to a request for a page. The query, which may contain a token, is ignored."""
        path = unquote(urlsplit(request.path).path)
        if request.method not in _READ:
            return response(HTTPStatus.METHOD_NOT_ALLOWED, Allow="GET, HEAD")
        if path == "/healthcheck":
            return _body(request, b"OK", "text/plain; charset=utf-8")
        if self._folder is None:
            return response(HTTPStatus.NOT_FOUND)
        if not self.are_there:
            missing = _body(request, _MISSING.encode(), "text/html; charset=utf-8")
            missing.status_code, missing.reason_phrase = HTTPStatus.NOT_FOUND.value, HTTPStatus.NOT_FOUND.phrase
            return missing
        file = self._file(path)
        if file is None:
            return response(HTTPStatus.NOT_FOUND)
        kind = mimetypes.guess_type(file.name)[0] or "application/octet-stream"
        text = kind.startswith("text/") or kind.endswith(("json", "javascript"))
        try:
            return _body(request, file.read_bytes(), f"{kind}; charset=utf-8" if text else kind)
        except OSError:
            return response(HTTPStatus.NOT_FOUND)

    def _file(self, path: str) -> Path | None:
        """Return the file of a URL path, None if it does not exist or is outside of the folder."""
        assert self._folder is not None
        name = path.strip("/") or "index.html"
        for each in (name, _OTHER_NAMES.get(name)):
            if each is None or "\0" in each:
                continue
            try:
                file = (self._folder / each).resolve()
                if file.is_relative_to(self._folder) and file.is_file() and file.stat().st_size <= _LARGEST:
                    return file
            except OSError:  # for example, the file system refuses a name as too long
                continue
        return None


def response(status: HTTPStatus, **more: str) -> Response:
    """Return a response without a body: a console client would take the body for output of the console."""
    headers = Headers({"Connection": "close", "Content-Length": "0", "Cache-Control": "no-store", **more})
    return Response(status.value, status.phrase, headers, b"")


def _body(request: Request, body: bytes, kind: str) -> Response:
    answer = response(HTTPStatus.OK)
    for name in ("Content-Length", "Cache-Control"):
        del answer.headers[name]
    answer.headers.update(
        {
            "Content-Type": kind,
            "Content-Length": str(len(body)),
            "Cache-Control": "no-cache",
            "X-Content-Type-Options": "nosniff",
            "Referrer-Policy": "no-referrer",  # the URL contains the token, which other sites must not get
        }
    )
    answer.body = b"" if request.method == "HEAD" else body
    return answer
