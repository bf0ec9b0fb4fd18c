# SPDX-License-Identifier: Apache-2.0
"""[DEFAULT] transport_url and [oslo_messaging_rabbit]: the connection to the broker, which agent processes need."""

from collections.abc import Iterator
from pathlib import Path
from ssl import TLSVersion
from typing import Annotated, ClassVar

from kilonova.config.option import Option
from kilonova.messaging.rabbit.transport_url import Tls, Transport, TransportUrl, parse_transport_url
from kilonova.records import dataclass

_GROUP = "oslo_messaging_rabbit"
_VERSIONS = {"TLSv1_2": TLSVersion.TLSv1_2, "TLSv1_3": TLSVersion.TLSv1_3}


@dataclass(frozen=True, slots=True)
class RabbitSettings:
    """Options of the connection to RabbitMQ. ``transport``: the resulting parameters, or None if no broker is set.

    Units: seconds.
    """

    GROUP: ClassVar[str] = _GROUP

    transport_url: Annotated[
        TransportUrl | None,
        Option(
            "URL of RabbitMQ: rabbit://USER:PASSWORD@HOST:PORT[,USER:PASSWORD@HOST:PORT]/VIRTUAL_HOST with parts "
            "percent-encoded. A user without a password logs in with the certificate in ssl_cert_file. Unset: "
            "no broker; all agents run in the control process.",
            group="DEFAULT",
            secret=True,
            read=parse_transport_url,
        ),
    ] = None
    ssl: Annotated[
        bool,
        Option(
            "Use TLS to the broker. Its certificate and host name are always checked.",
            former=((_GROUP, "rabbit_use_ssl"),),
        ),
    ] = False
    ssl_version: Annotated[
        str, Option("Oldest TLS version.", choices=tuple(_VERSIONS), former=((_GROUP, "kombu_ssl_version"),))
    ] = "TLSv1_2"
    ssl_ca_file: Annotated[
        Path | None,
        Option(
            "CA file to check the broker's certificate with. Unset: the system's CAs.",
            former=((_GROUP, "kombu_ssl_ca_certs"),),
        ),
    ] = None
    ssl_cert_file: Annotated[
        Path | None,
        Option("Client certificate for the broker.", former=((_GROUP, "kombu_ssl_certfile"),)),
    ] = None
    ssl_key_file: Annotated[
        Path | None,
        Option(
            "Private key of ssl_cert_file; unset: the key is in ssl_cert_file.", former=((_GROUP, "kombu_ssl_keyfile"),)
        ),
    ] = None
    rabbit_login_method: Annotated[
        str,
        Option(
            "SASL mechanism of the login. Users without a password always use EXTERNAL.",
            choices=("PLAIN", "AMQPLAIN", "EXTERNAL"),
        ),
    ] = "AMQPLAIN"
    heartbeat_timeout_threshold: Annotated[
        int,
        Option(
            "AMQP heartbeat timeout in seconds; a connection is closed after twice that time of silence. The broker "
            "may request less. Until its connection is closed, a frozen process can complete a half-sent message when "
            "it resumes, so keep this below half of [conductor] lease_time (the default is Kilonova's own).",
            min=1,
        ),
    ] = 10
    rabbit_retry_interval: Annotated[
        float, Option("Seconds before the first retry of a failed connection.", min=0.1)
    ] = 1.0
    rabbit_retry_backoff: Annotated[float, Option("Seconds by which the retry interval grows each time.", min=0.0)] = (
        2.0
    )
    rabbit_interval_max: Annotated[float, Option("Longest retry interval in seconds.", min=0.1)] = 30.0
    kombu_failover_strategy: Annotated[
        str,
        Option(
            "Order in which the hosts of transport_url are tried: as written, or shuffled by each process.",
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
                "[DEFAULT] transport_url needs a password for each user, unless "
                f"[{_GROUP}] ssl_cert_file names a client certificate for the login."
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
