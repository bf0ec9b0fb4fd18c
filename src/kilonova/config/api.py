# SPDX-License-Identifier: Apache-2.0
"""[api], and how large the bodies of requests may be."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar

from kilonova.config.address import Address, parse_address
from kilonova.config.option import Option

_LOOPBACK = Address("127.0.0.1", 8774)


@dataclass(frozen=True, slots=True)
class ApiSettings:
    """The HTTP server and what all APIs have in common. Units: seconds where the name ends in ``_s``."""

    GROUP: ClassVar[str] = "api"

    auth_strategy: Annotated[str, Option(choices=("keystone", "noauth2"))] = "keystone"
    bind: Annotated[Address, Option("HOST:PORT to listen on (Kilonova's own).", read=parse_address)] = _LOOPBACK
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
        str, Option("Domain that follows the host name which a guest is told, where that has none of its own.")
    ] = "novalocal"
    vendordata_jsonfile_path: Annotated[
        Path | None,
        Option("File with a JSON object that every config drive has: vendor_data.json, 'static' of vendor_data2.json."),
    ] = None
    use_forwarded_for: Annotated[
        bool, Option("Take the caller's address from X-Forwarded-For. Only behind a proxy that sets it.")
    ] = False
    noauth2_beyond_loopback: Annotated[
        bool,
        Option(
            "Let noauth2, which makes anybody an administrator, listen where other machines reach it (Kilonova's own)."
        ),
    ] = False
    read_only: Annotated[
        bool,
        Option(
            "Refuse whatever changes something with 503; `kilonova read-only` does so while the cloud runs "
            "(Kilonova's own)."
        ),
    ] = False
    threads: Annotated[int, Option("Requests handled at once (Kilonova's own).", min=1, max=64)] = 16
    request_timeout_s: Annotated[
        float | None,
        Option(
            "Seconds after which a GET is given up with 503; 0: never (Kilonova's own).",
            name="request_timeout",
            min=0.0,
            read=lambda seconds: seconds or None,
        ),
    ] = 60.0
    header_timeout_s: Annotated[
        float, Option("Seconds for all headers of a request (Kilonova's own).", name="header_timeout", min=0.1)
    ] = 10.0
    body_timeout_s: Annotated[
        float,
        Option(
            "Seconds for a body, and one more for each 64 KiB of it (Kilonova's own).", name="body_timeout", min=0.1
        ),
    ] = 20.0
    idle_timeout_s: Annotated[
        float, Option("Seconds that a connection waits for requests (Kilonova's own).", name="idle_timeout", min=0.1)
    ] = 75.0
    max_connections: Annotated[int, Option("Connections at once (Kilonova's own).", min=16)] = 8000
    cert_file: Annotated[str | None, Option("Certificate, with its chain, to serve HTTPS with (Kilonova's own).")] = (
        None
    )
    key_file: Annotated[str | None, Option("Key of cert_file, unless it is in the same file (Kilonova's own).")] = None


@dataclass(frozen=True, slots=True)
class BodyLimits:
    """The largest body of a request to each API, in bytes."""

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
