# SPDX-License-Identifier: Apache-2.0
"""[neutron]: the network service. keystoneauth registers the options of credentials, endpoint and connections."""

from typing import Annotated, ClassVar

from kilonova.config.option import Option
from kilonova.records import dataclass


@dataclass(frozen=True, slots=True)
class NeutronSettings:
    """Use of the network service. Units: seconds where the name ends in ``_s``."""

    GROUP: ClassVar[str] = "neutron"

    http_retries: Annotated[
        int,
        Option("Number of times that a request which only reads is repeated if the service does not answer.", min=0),
    ] = 3
    extension_sync_interval_s: Annotated[
        int,
        Option(
            "Seconds for which the list of extensions of the service is kept.", name="extension_sync_interval", min=0
        ),
    ] = 600
    default_floating_pool: Annotated[
        str, Option("External network of new floating IPs whose request names none: its name or id.")
    ] = "nova"
    stray_port_count_interval_s: Annotated[
        int,
        Option(
            "Seconds from a count of the stray ports of the cloud to the next one. 0: they are not counted.",
            name="stray_port_count_interval",
            min=0,
        ),
    ] = 3600
    service_metadata_proxy: Annotated[
        bool,
        Option("Whether the metadata API answers requests that Neutron's metadata agents forward from guests."),
    ] = False
    metadata_proxy_shared_secret: Annotated[
        str, Option("Secret with which metadata agents sign the server's id in forwarded requests.", secret=True)
    ] = ""
