# SPDX-License-Identifier: Apache-2.0
"""Switch of a rescued libvirt guest back to its own disk."""

from dataclasses import replace

from kilonova.compute.virt.libvirt.domain.marks import read_mark
from kilonova.compute.virt.libvirt.domains import OwnDomain
from kilonova.compute.virt.libvirt.hypervisor import LibvirtHost
from kilonova.errors import DriverError


def from_own_disk(host: LibvirtHost, domain: OwnDomain) -> OwnDomain:
    """Redefine a powered-off guest to boot from its own disk, and remove its rescue disks. Raises: DriverError.

    The domain XML from before the rescue is read from the guest's folder.
    """
    if domain.mark.rescue_image is None:
        host.disks.drop_rescue(domain.uuid)  # an agent that was killed may have left disks of the rescue behind
        return domain
    noted = host.noted(domain.uuid)
    mark = None if noted is None else read_mark(noted)
    if noted is None or mark is None:
        raise DriverError(f"The description of guest {domain.uuid} from before its rescue is lost.")
    own = host.domains.define(noted, replace(mark, rescue_image=None))
    host.disks.drop_rescue(domain.uuid)
    return own
