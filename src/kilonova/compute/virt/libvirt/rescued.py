# SPDX-License-Identifier: Apache-2.0
"""Real guests run from their own disk, or while they are rescued from another one."""

from dataclasses import replace

from kilonova.compute.virt.libvirt.domain.marks import read_mark
from kilonova.compute.virt.libvirt.domains import OwnDomain
from kilonova.compute.virt.libvirt.hypervisor import LibvirtHost
from kilonova.errors import DriverError


def from_own_disk(host: LibvirtHost, domain: OwnDomain) -> OwnDomain:
    """Return a guest that is off as it is when it is not rescued. Raises: DriverError.

    What it is like otherwise is noted beside its disks.
    """
    if domain.mark.rescue_image is None:
        host.disks.drop_rescue(domain.uuid)  # an agent was killed when it had not come to that
        return domain
    noted = host.noted(domain.uuid)
    mark = None if noted is None else read_mark(noted)
    if noted is None or mark is None:
        raise DriverError(f"It is not known any more what guest {domain.uuid} was like before its rescue.")
    own = host.domains.define(noted, replace(mark, rescue_image=None))
    host.disks.drop_rescue(domain.uuid)
    return own
