# SPDX-License-Identifier: Apache-2.0
"""Limits of the HTTP server: bytes, seconds and connections."""

from collections.abc import Callable, Sequence

from kilonova.records import dataclass

KIB = 1024
MIB = 1024 * KIB


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of an HTTP server. Units: seconds if the name ends in ``_s``; sizes are in bytes.

    ``bodies``: (path prefix, largest body) pairs, of which the first that matches the path applies; ``body``: largest
    body for all other paths. ``token_needed``: a body without ``X-Auth-Token`` is not read. ``probe_path``: path of a
    GET that the application answers with 401 for an unknown token, without side effects. The server makes this GET
    before it waits for a body that did not arrive together with its headers, and does not read the body if the token is
    unknown. ``streams``: function that returns, for a method and a path, whether the application reads the body while
    it arrives. A streamed body has no size limit, at most ``max_streams`` are read concurrently, and the header
    ``Authorization`` is accepted in place of a token.
    ``tokenless``: function that returns, for a method and a path, the largest body that is read without a token.
    """

    head: int = 64 * KIB
    headers: int = 200
    bodies: Sequence[tuple[str, int]] = ()
    body: int = 112 * KIB
    received: int = 256 * MIB  # Maximum number of bytes held for incomplete requests, summed over all connections.
    unsent: int = 512 * MIB  # Maximum number of unsent bytes of answers, summed over all connections.
    connections: int = 8_000
    head_s: float = 10.0
    body_s: float = 20.0
    bytes_per_s: int = 64 * KIB  # minimum rate of a body: a body that arrives faster does not time out
    idle_s: float = 75.0
    write_s: float = 60.0
    piece_s: float = 30.0  # time in which a client must receive a piece of a stream of events
    linger_s: float = 2.0
    stop_s: float = 3.0
    token_needed: bool = False
    probe_path: str | None = None
    streams: Callable[[str, str], bool] | None = None
    max_streams: int = 4
    tokenless: Callable[[str, str], int] = lambda _method, _path: 0

    def body_of(self, path: str) -> int:
        """Return the maximum size of a body for ``path``."""
        for prefix, most in self.bodies:
            if path == prefix or path.startswith(prefix + "/"):
                return most
        return self.body
