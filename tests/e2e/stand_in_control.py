# SPDX-License-Identifier: Apache-2.0
"""Fake ``kilonova api``: answers the readiness probe, accepts flavors, and starts a grandchild process as a server
would.

It appends its arguments and requests to ``stand-in.log`` in its working directory. ``STAND_IN_EXIT`` makes it fail at
once.
"""

import configparser
import http.server
import json
import os
import subprocess
import sys
from pathlib import Path

from kilonova.bundled_services.parent_death import die_with_parent


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self._reply(200 if self.path == "/compute/v2.1" else 404)

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with Path("stand-in.log").open("a") as file:
            file.write(f"flavor {body['flavor']['name']} token={'X-Auth-Token' in self.headers}\n")
        self._reply(200)

    def _reply(self, status: int) -> None:
        self.send_response(status)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, *_: object) -> None:
        pass


def main() -> None:
    if "STAND_IN_EXIT" in os.environ:
        sys.exit("the stand-in was told to fail")
    parser = configparser.ConfigParser()
    parser.read([word for word in sys.argv[1:] if word != "--config-file"])
    host, _, port = parser["api"]["bind"].rpartition(":")
    parent = os.getpid()
    subprocess.Popen(["sleep", "1000"], preexec_fn=lambda: die_with_parent(parent))  # noqa: PLW1509
    http.server.ThreadingHTTPServer((host, int(port)), Handler).serve_forever()


main()
