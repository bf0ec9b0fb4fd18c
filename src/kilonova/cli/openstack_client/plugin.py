# SPDX-License-Identifier: Apache-2.0
"""What python-openstackclient loads of a plug-in: its name, its versions and its client.

Every ``openstack`` command imports this module, so it imports nothing that is slow.
"""

import argparse
from typing import Any

API_NAME = "scheduler"
DEFAULT_API_VERSION = "1"
API_VERSION_OPTION = "os_scheduler_api_version"
API_VERSIONS = {"1": "kilonova.cli.cloud.connection.Connection"}


def build_option_parser(parser: argparse.ArgumentParser) -> argparse.ArgumentParser:
    """Add the option for the version of the operator API, of which there is one."""
    parser.add_argument(
        "--os-scheduler-api-version",
        metavar="<scheduler-api-version>",
        default=DEFAULT_API_VERSION,
        choices=sorted(API_VERSIONS),
        help="Version of Kilonova's operator API, default=1",
    )
    return parser


def make_client(instance: Any) -> Any:
    """Return a connection with the session of the stock client."""
    from kilonova.cli.cloud.connection import CloudName, Connection  # noqa: PLC0415 - every openstack command comes here

    name = getattr(instance._cli_options, "cloud", None) or "of the environment"  # noqa: SLF001 - as other plug-ins do
    return Connection(CloudName(str(name)), instance.session, instance._region_name)  # noqa: SLF001 - as other plug-ins do
