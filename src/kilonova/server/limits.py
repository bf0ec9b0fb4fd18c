# SPDX-License-Identifier: Apache-2.0
"""What clients may take of a server: bytes, seconds, connections."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

KIB = 1024
MIB = 1024 * KIB


@dataclass(frozen=True, slots=True)
class Limits:
    """Units: bytes, and seconds where the name ends in ``_s``.

    ``bodies``: the largest body for each prefix of a path, the first that fits counts; ``body``: for all other paths.
    ``token_needed``: a body without ``X-Auth-Token`` is not read. ``probe_path``: path of a GET that the application
    answers with 401 when it does not know the token, and does nothing else for. It is made before a body is waited for
    that did not come with its headers; where the token is not known, that body is not read.
    ``streams``: which bodies the application reads itself while they arrive, at most ``max_streams`` at once, and
    without a limit to their size; for these, ``Authorization`` will do as well.
    """

    head: int = 64 * KIB
    headers: int = 200
    bodies: Sequence[tuple[str, int]] = ()
    body: int = 112 * KIB
    received: int = 256 * MIB  # of all requests together that are not complete yet
    unsent: int = 512 * MIB  # of all answers together that clients do not fetch
    connections: int = 8_000
    head_s: float = 10.0
    body_s: float = 20.0
    bytes_per_s: int = 64 * KIB  # a body that arrives faster than this is never late
    idle_s: float = 75.0
    write_s: float = 60.0
    linger_s: float = 2.0
    stop_s: float = 3.0
    token_needed: bool = False
    probe_path: str | None = None
    streams: Callable[[str, str], bool] | None = None
    max_streams: int = 4

    def body_of(self, path: str) -> int:
        """Return how large the body of a request for ``path`` may be."""
        for prefix, most in self.bodies:
            if path == prefix or path.startswith(prefix + "/"):
                return most
        return self.body
