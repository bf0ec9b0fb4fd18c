# SPDX-License-Identifier: Apache-2.0
"""The message that ``kilonova up`` prints when its cloud is up, with commands to type next."""

import shlex
import sys
from collections.abc import Iterator
from pathlib import Path

from kilonova.cli.up import first_image
from kilonova.cli.up.cloud_files import Cloud
from kilonova.cli.up.networks import PRIVATE, PUBLIC
from kilonova.records import dataclass


@dataclass(frozen=True, slots=True)
class Announcement:
    """The message and its inputs.

    ``bundled_services``: whether the cloud runs its own Keystone and Glance. ``unlimited``: whether quotas are off.
    ``has_linux``: whether the guests of the first image have SSH.
    ``data``: the option ``--data`` with which other commands select this cloud, or "" if they do not need the option.
    """

    cloud: Cloud
    seconds: float
    bundled_services: bool
    unlimited: bool
    real_guests: bool
    agents: bool
    data: str
    has_linux: bool = False

    def text(self) -> str:
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        where = f"{self.cloud.compute.public_url}/compute/v2.1"
        ready = f"Kilonova is ready at {where} after {self.seconds:.1f} s. Ctrl-C stops it."
        if not self.bundled_services:
            yield ready
        else:
            openstack = _installed("openstack")
            yield f"{ready} Type next:"
            yield f"  export OS_CLIENT_CONFIG_FILE={shlex.quote(str(self.cloud.clouds_yaml))}"
            yield "  export OS_CLOUD=kilonova"
            yield from self._first_server(openstack)
            if self.unlimited:
                limit = f"{openstack} quota set --instances 10 demo"
                yield f"Projects may have any number of servers here; limit one with: {limit}"
        if self.agents:
            yield f"To list the hosts of each agent: {_installed('kilonova')} compute agents{self.data}"

    def _first_server(self, openstack: str) -> Iterator[str]:
        explain = f"  {_installed('kilonova')} explain first"
        if self.real_guests and self.has_linux and self.cloud.network is not None:
            yield from (f"  {line}" for line in _with_ssh(openstack))
            yield explain
            return
        yield f"  {openstack} {_CREATE} --wait first"
        yield explain
        if self.real_guests:
            yield f"  {openstack} console log show first"
        if self.cloud.network is not None:
            floating = f"{openstack} floating ip create {PUBLIC}"
            yield f"Servers get addresses on the network {PRIVATE}; for one on {PUBLIC}: {floating}"


_CREATE = f"server create --flavor m1.tiny --image {first_image.NAME}"


def _with_ssh(openstack: str) -> Iterator[str]:
    """Return the commands that create a server and log in to its guest by its floating address."""
    yield f"(umask 077 && {openstack} keypair create --private-key first.key first)"
    yield f"{openstack} security group create ssh"
    yield f"{openstack} security group rule create --protocol tcp --dst-port 22 ssh"
    yield f"{openstack} security group rule create --protocol icmp ssh"
    yield f"{openstack} {_CREATE} --key-name first --security-group ssh --wait first"
    address = f"$({openstack} floating ip create -f value -c floating_ip_address {PUBLIC})"
    yield f"{openstack} server add floating ip first {address}"
    yield f"{openstack} console log show first"
    yield f"{openstack} server ssh first -- -l root -i first.key"


def _installed(name: str) -> str:
    """Return the path of an installed command, quoted for a shell; relative if it is below the current folder."""
    client = Path(sys.executable).with_name(name)
    if not client.exists():
        return name
    here = Path.cwd()
    return shlex.quote(str(client.relative_to(here) if client.is_relative_to(here) else client))
