# SPDX-License-Identifier: Apache-2.0
"""HTTP reverse proxy that adds forwarding headers, as operators run in front of an API."""

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import requests

_OWN_HEADERS = {"connection", "host", "transfer-encoding", "content-length", "x-forwarded-for"}


class ForwardingProxy:
    """Proxy that forwards to ``port`` of loopback, on behalf of a client at ``address``."""

    def __init__(self, port: int, address: str) -> None:
        target = f"http://127.0.0.1:{port}"

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def forward(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                headers = {name: value for name, value in self.headers.items() if name.lower() not in _OWN_HEADERS}
                answer = requests.request(
                    self.command,
                    target + self.path,
                    data=body,
                    headers={**headers, "Host": self.headers["Host"], "X-Forwarded-For": address},
                    allow_redirects=False,
                    timeout=60,
                )
                self.send_response(answer.status_code)
                for name, value in answer.headers.items():
                    if name.lower() not in {*_OWN_HEADERS, "content-encoding"}:
                        self.send_header(name, value)
                self.send_header("Content-Length", str(len(answer.content)))
                self.end_headers()
                self.wfile.write(answer.content)

            do_GET = do_POST = do_PUT = do_DELETE = forward  # noqa: N815  names of http.server

            def log_message(self, *_: object) -> None: ...

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
