# SPDX-License-Identifier: Apache-2.0
"""[DEFAULT] transport_url and [oslo_messaging_rabbit]: the broker, for agents in processes of their own."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from ssl import TLSVersion
from typing import Annotated, ClassVar

from kilonova.config.option import Option
from kilonova.messaging.rabbit.transport_url import Tls, Transport, TransportUrl, parse_transport_url

_GROUP = "oslo_messaging_rabbit"
_VERSIONS = {"TLSv1_2": TLSVersion.TLSv1_2, "TLSv1_3": TLSVersion.TLSv1_3}


@dataclass(frozen=True, slots=True)
class RabbitSettings:
    """``transport``: what all of it comes to; None without a broker. Units: seconds."""

    GROUP: ClassVar[str] = _GROUP

    transport_url: Annotated[
        TransportUrl | None,
        Option(
            "RabbitMQ, as rabbit://USER:PASSWORD@HOST:PORT[,USER:PASSWORD@HOST:PORT]/VIRTUAL_HOST with parts "
            "percent-encoded. A user without a password shows the certificate in ssl_cert_file. Without this option "
            "there is no broker, and all agents are in the control process.",
            group="DEFAULT",
            secret=True,
            read=parse_transport_url,
        ),
    ] = None
    ssl: Annotated[
        bool,
        Option(
            "Talk TLS to the broker. Its certificate and the host name in it are always checked.",
            former=((_GROUP, "rabbit_use_ssl"),),
        ),
    ] = False
    ssl_version: Annotated[
        str, Option("Oldest version of TLS.", choices=tuple(_VERSIONS), former=((_GROUP, "kombu_ssl_version"),))
    ] = "TLSv1_2"
    ssl_ca_file: Annotated[
        Path | None,
        Option(
            "Authorities that may have signed the broker's certificate. Without it: those of the system.",
            former=((_GROUP, "kombu_ssl_ca_certs"),),
        ),
    ] = None
    ssl_cert_file: Annotated[
        Path | None,
        Option("Certificate to show to the broker.", former=((_GROUP, "kombu_ssl_certfile"),)),
    ] = None
    ssl_key_file: Annotated[
        Path | None,
        Option("Key of ssl_cert_file, unless it is in the same file.", former=((_GROUP, "kombu_ssl_keyfile"),)),
    ] = None
    rabbit_login_method: Annotated[
        str,
        Option(
            "How to prove who one is. It is EXTERNAL for users without a password.",
            choices=("PLAIN", "AMQPLAIN", "EXTERNAL"),
        ),
    ] = "AMQPLAIN"
    heartbeat_timeout_threshold: Annotated[
        int,
        Option(
            "Seconds of silence after which a connection is suspected, and broken after twice that. A broker that asks "
            "for less gets it. What a process had half sent when it froze is void only then, so keep it below half of "
            "[conductor] lease_time (the default is Kilonova's own).",
            min=1,
        ),
    ] = 10
    rabbit_retry_interval: Annotated[
        float, Option("Seconds until a broker that could not be reached is tried again.", min=0.1)
    ] = 1.0
    rabbit_retry_backoff: Annotated[float, Option("Seconds by which that grows each time.", min=0.0)] = 2.0
    rabbit_interval_max: Annotated[float, Option("Seconds beyond which that does not grow.", min=0.1)] = 30.0
    kombu_failover_strategy: Annotated[
        str,
        Option(
            "In which order the hosts of transport_url are tried: as they are written, or shuffled by each process.",
            choices=("round-robin", "shuffle"),
        ),
    ] = "round-robin"

    def __post_init__(self) -> None:
        for option in self._in_vain():
            raise ValueError(f"[{_GROUP}] {option} needs ssl = true.")
        if self.transport_url is None:
            return
        if self.ssl:
            try:
                self._tls().check()
            except OSError as error:
                raise ValueError(f"[{_GROUP}] The certificates cannot be used: {error}") from error
        shown = self.ssl and self.ssl_cert_file is not None
        if not shown and any(self._logs_in_by(broker.password) == "EXTERNAL" for broker in self.transport_url.brokers):
            raise ValueError(
                "[DEFAULT] transport_url needs a password for each user, or "
                f"[{_GROUP}] ssl_cert_file a certificate that the broker takes instead."
            )

    @property
    def transport(self) -> Transport | None:
        if self.transport_url is None:
            return None
        return Transport(
            self.transport_url,
            self._tls() if self.ssl else None,
            self.rabbit_login_method,
            self.heartbeat_timeout_threshold,
            self.rabbit_retry_interval,
            self.rabbit_retry_backoff,
            self.rabbit_interval_max,
            is_shuffled=self.kombu_failover_strategy == "shuffle",
        )

    def _logs_in_by(self, password: str | None) -> str:
        return "EXTERNAL" if password is None else self.rabbit_login_method

    def _tls(self) -> Tls:
        return Tls(self.ssl_ca_file, self.ssl_cert_file, self.ssl_key_file, _VERSIONS[self.ssl_version])

    def _in_vain(self) -> Iterator[str]:
        if not self.ssl:
            files = {"ssl_ca_file": self.ssl_ca_file, "ssl_cert_file": self.ssl_cert_file}
            yield from (name for name, value in {**files, "ssl_key_file": self.ssl_key_file}.items() if value)
