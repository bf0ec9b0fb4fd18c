# SPDX-License-Identifier: Apache-2.0
"""Unix socket at which the agent of a host answers the metadata service of the host."""

from kilonova.compute.metadata.answers import WAITING_AT_ONCE, MetadataAnswers
from kilonova.compute.metadata.application import MetadataApplication
from kilonova.config.metadata import MetadataSettings
from kilonova.messaging.bus import AgentBus
from kilonova.process_parts import PartOf
from kilonova.server.limits import KIB, Limits
from kilonova.server.listening import listen_locally
from kilonova.server.server import Server

_LIMITS = Limits(head=16 * KIB, body=2 * KIB, received=KIB * KIB, connections=256, idle_s=15.0, stop_s=0.5)
#: More threads than requests that may wait for the control plane, so that answers in memory are given meanwhile.
_THREADS = WAITING_AT_ONCE + 4


def metadata_parts(settings: MetadataSettings, host: str, bus: AgentBus) -> tuple[PartOf, ...]:
    """Return the part of a process that answers about the guests of ``host``, if a socket is configured."""
    if settings.socket is None:
        return ()
    path = str(settings.socket)
    servers: list[Server] = []

    def start() -> None:
        application = MetadataApplication(MetadataAnswers(host, bus, settings.cache_expiration_s))
        server = Server(application, listen_locally(path, "[DEFAULT] metadata_socket"), _LIMITS, _THREADS)
        server.start()
        servers.append(server)

    def stop() -> None:
        for server in servers:
            server.stop()

    return (PartOf("metadata", start, stop),)
