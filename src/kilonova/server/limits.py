# SPDX-License-Identifier: Apache-2.0
"""Limits of the HTTP server: bytes, seconds and connections."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

KIB = 1024
MIB = 1024 * KIB


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of a server. Units: bytes, and seconds for names that end in ``_s``.

    ``bodies``: largest body for each path prefix, of which the first match applies; ``body``: for all other paths.
    ``token_needed``: a body without ``X-Auth-Token`` is not read. ``probe_path``: path of a GET that the application
    answers with 401 for an unknown token, without side effects. The server makes this request before it waits for a
    body that did not arrive with its headers; with an unknown token the body is not read.
    ``streams``: returns whether the application reads the body of a method and path while it arrives. Such bodies have
    no size limit, at most ``max_streams`` are read at once, and ``Authorization`` is accepted in place of a token.
    """

    head: int = 64 * KIB
    headers: int = 200
    bodies: Sequence[tuple[str, int]] = ()
    body: int = 112 * KIB
    received: int = 256 * MIB  # Bytes held for incomplete requests, of all connections.
    unsent: int = 512 * MIB  # Bytes of unsent output, of all connections.
    connections: int = 8_000
    head_s: float = 10.0
    body_s: float = 20.0
    bytes_per_s: int = 64 * KIB  # minimum rate of a body: a faster body does not time out
    idle_s: float = 75.0
    write_s: float = 60.0
    linger_s: float = 2.0
    stop_s: float = 3.0
    token_needed: bool = False
    probe_path: str | None = None
    streams: Callable[[str, str], bool] | None = None
    max_streams: int = 4

    def body_of(self, path: str) -> int:
        """Return the maximum size of a body for ``path``."""
        for prefix, most in self.bodies:
            if path == prefix or path.startswith(prefix + "/"):
                return most
        return self.body
