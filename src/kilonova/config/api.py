# SPDX-License-Identifier: Apache-2.0
"""[api], and the options that limit the size of request bodies."""

from pathlib import Path
from typing import Annotated, ClassVar

from kilonova.config.address import Address, parse_address
from kilonova.config.option import Option
from kilonova.records import dataclass

_LOOPBACK = Address("127.0.0.1", 8774)


@dataclass(frozen=True, slots=True)
class ApiSettings:
    """Options of the HTTP server, and options common to all APIs. Units: seconds where the name ends in ``_s``."""

    GROUP: ClassVar[str] = "api"

    auth_strategy: Annotated[str, Option(choices=("keystone", "noauth2"))] = "keystone"
    bind: Annotated[Address, Option("HOST:PORT to listen on (Kilonova's own).", read=parse_address)] = _LOOPBACK
    workers: Annotated[
        int,
        Option(
            "Number of control processes that serve the APIs on one port, more than 1 only on PostgreSQL and MariaDB.",
            name="osapi_compute_workers",
            group="DEFAULT",
            min=1,
            max=64,
        ),
    ] = 1
    max_limit: Annotated[int, Option("Most items in one answer of a list.", min=1)] = 1000
    max_servers_per_request: Annotated[int, Option("Most servers of one request (Kilonova's own).", min=1)] = 1000
    max_query_length: Annotated[int, Option("Longest query string in bytes (Kilonova's own).", min=1)] = 32_768
    max_query_parameters: Annotated[int, Option("Most parameters of one query (Kilonova's own).", min=1)] = 1000
    max_hints_size: Annotated[int, Option("Most bytes of all scheduler hints as JSON (Kilonova's own).", min=2)] = (
        16_384
    )
    delete_only_down_services: Annotated[
        bool, Option("Refuse to delete a compute service that is up, with 409 (Kilonova's own).")
    ] = False
    enable_instance_password: Annotated[bool, Option()] = True
    dhcp_domain: Annotated[
        str, Option("Domain added to the host name of a guest, unless the name already includes a domain.")
    ] = "novalocal"
    vendordata_jsonfile_path: Annotated[
        Path | None,
        Option(
            "File with a JSON object. Config drives contain it as vendor_data.json, and as 'static' in "
            "vendor_data2.json."
        ),
    ] = None
    use_forwarded_for: Annotated[
        bool,
        Option("Take the client's address from X-Forwarded-For. Set it only behind a proxy that sets this header."),
    ] = False
    noauth2_beyond_loopback: Annotated[
        bool,
        Option(
            "Let the API listen beyond loopback with noauth2, where every client is an administrator (Kilonova's own)."
        ),
    ] = False
    read_only: Annotated[
        bool,
        Option(
            "Answer 503 to every request that would change anything; `kilonova read-only` switches this at run time "
            "(Kilonova's own)."
        ),
    ] = False
    threads: Annotated[
        int,
        Option(
            "Number of threads, and so of requests that are handled at the same time (Kilonova's own).", min=1, max=64
        ),
    ] = 16
    request_timeout_s: Annotated[
        float | None,
        Option(
            "Timeout in seconds of a request that only reads, after which it gets 503; 0: no timeout (Kilonova's own).",
            name="request_timeout",
            min=0.0,
            read=lambda seconds: seconds or None,
        ),
    ] = 60.0
    header_timeout_s: Annotated[
        float,
        Option(
            "Timeout for reading the headers of a request, in seconds (Kilonova's own).", name="header_timeout", min=0.1
        ),
    ] = 10.0
    body_timeout_s: Annotated[
        float,
        Option(
            "Timeout for reading a body, in seconds, plus one second for each 64 KiB (Kilonova's own).",
            name="body_timeout",
            min=0.1,
        ),
    ] = 20.0
    idle_timeout_s: Annotated[
        float,
        Option("Seconds after which an idle connection is closed (Kilonova's own).", name="idle_timeout", min=0.1),
    ] = 75.0
    max_connections: Annotated[int, Option("Most open connections (Kilonova's own).", min=16)] = 8000
    cert_file: Annotated[str | None, Option("Certificate and its chain, for HTTPS (Kilonova's own).")] = None
    key_file: Annotated[
        str | None, Option("Private key of cert_file; unset: the key is in cert_file (Kilonova's own).")
    ] = None


@dataclass(frozen=True, slots=True)
class BodyLimits:
    """The largest request body of each API, in bytes."""

    GROUP: ClassVar[str] = "oslo_middleware"

    compute: Annotated[
        int, Option("Largest body of a compute API request, in bytes.", name="max_request_body_size", min=1)
    ] = 114_688
    placement: Annotated[
        int,
        Option(
            "Largest body of a Placement request, in bytes (Kilonova's own).",
            name="max_request_body_size",
            group="placement",
            min=1,
        ),
    ] = 16 * 1024 * 1024
    operator: Annotated[
        int,
        Option(
            "Largest body of an operator API request, in bytes (Kilonova's own).",
            name="max_request_body_size",
            group="operator",
            min=1,
        ),
    ] = 1024 * 1024
