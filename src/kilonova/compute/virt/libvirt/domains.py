# SPDX-License-Identifier: Apache-2.0
"""The libvirt domains of a host that have Kilonova's mark in their metadata. Domains without the mark are ignored."""

import threading
from collections.abc import Iterator
from typing import Any
from xml.etree import ElementTree as ET

import libvirt

from kilonova.compute.virt.libvirt.connection import Connection, explained
from kilonova.compute.virt.libvirt.domain.domain_shapes import CheckedShapes
from kilonova.compute.virt.libvirt.domain.marks import NAMESPACE, PREFIX, GuestMark, read_mark
from kilonova.errors import DriverError, GuestMissing
from kilonova.model.instance import PowerState
from kilonova.records import dataclass

_STATES = {
    libvirt.VIR_DOMAIN_NOSTATE: PowerState.NOSTATE,
    libvirt.VIR_DOMAIN_RUNNING: PowerState.RUNNING,
    libvirt.VIR_DOMAIN_BLOCKED: PowerState.RUNNING,
    libvirt.VIR_DOMAIN_PAUSED: PowerState.PAUSED,
    libvirt.VIR_DOMAIN_SHUTDOWN: PowerState.RUNNING,  # the guest is still shutting down
    libvirt.VIR_DOMAIN_SHUTOFF: PowerState.SHUTDOWN,
    libvirt.VIR_DOMAIN_CRASHED: PowerState.CRASHED,
    libvirt.VIR_DOMAIN_PMSUSPENDED: PowerState.SUSPENDED,
}
_UNDEFINE = (
    libvirt.VIR_DOMAIN_UNDEFINE_MANAGED_SAVE
    | libvirt.VIR_DOMAIN_UNDEFINE_SNAPSHOTS_METADATA
    | libvirt.VIR_DOMAIN_UNDEFINE_CHECKPOINTS_METADATA
)
#: Flags for removing and for keeping the firmware variables and TPM state of a domain that is undefined. libvirt stores
#: them under the name and uuid of the domain.
_FORGET = libvirt.VIR_DOMAIN_UNDEFINE_NVRAM | libvirt.VIR_DOMAIN_UNDEFINE_TPM
_REMEMBER = libvirt.VIR_DOMAIN_UNDEFINE_KEEP_NVRAM | libvirt.VIR_DOMAIN_UNDEFINE_KEEP_TPM
_ABSENT = frozenset({libvirt.VIR_ERR_NO_DOMAIN, libvirt.VIR_ERR_NO_DOMAIN_METADATA})
#: libvirt's error if a domain is already in the requested state, for example if a domain is powered off twice.
_ALREADY = libvirt.VIR_ERR_OPERATION_INVALID


@dataclass(frozen=True, slots=True)
class OwnDomain:
    """A domain with Kilonova's mark. ``handle``: libvirt's ``virDomain``."""

    handle: Any
    mark: GuestMark

    @property
    def uuid(self) -> str:
        return self.mark.uuid

    def power_state(self) -> PowerState:
        """Return the power state. Raises: DriverError."""
        with explained(f"return the power state of guest {self.uuid}"):
            return _state(self.handle, self.handle.state()[0])

    def power_on(self, *, paused: bool = False) -> None:
        """Start the domain, or resume it with its saved memory; no error if it already runs. Raises: DriverError.

        ``paused``: start it paused.
        """
        with explained(f"start guest {self.uuid}"):
            try:
                self.handle.createWithFlags(libvirt.VIR_DOMAIN_START_PAUSED if paused else 0)
            except libvirt.libvirtError as error:
                if error.get_error_code() != _ALREADY or not self.handle.isActive():
                    raise

    def power_off(self) -> None:
        """Power the domain off at once and discard its saved memory; no error if already off. Raises: DriverError."""
        with explained(f"power off guest {self.uuid}"):
            _power_off(self.handle)

    def ask_to_shut_down(self) -> None:
        """Press the ACPI power button of the domain. Raises: DriverError."""
        with explained(f"shut down guest {self.uuid}"):
            try:
                self.handle.shutdown()
            except libvirt.libvirtError as error:
                if error.get_error_code() != _ALREADY or self.handle.isActive():
                    raise

    def undefine(self, *, for_good: bool = True) -> None:
        """Power the domain off and undefine it, keeping its disks; no error if absent. Raises: DriverError.

        ``for_good``: also remove the firmware variables and TPM state, which the domain needs if it is defined again.
        """
        with explained(f"remove guest {self.uuid}"):
            try:
                _power_off(self.handle)
                self.handle.undefineFlags(_UNDEFINE | (_FORGET if for_good else _REMEMBER))
            except libvirt.libvirtError as error:
                if error.get_error_code() not in _ABSENT:
                    raise

    def remark(self, mark: GuestMark) -> None:
        """Change the mark of the domain, in its running and its persistent configuration. Raises: DriverError."""
        flags = libvirt.VIR_DOMAIN_AFFECT_CONFIG
        with explained(f"mark guest {self.uuid}"):
            if self.handle.isActive():
                flags |= libvirt.VIR_DOMAIN_AFFECT_LIVE
            self.handle.setMetadata(libvirt.VIR_DOMAIN_METADATA_ELEMENT, mark.bare_xml(), PREFIX, NAMESPACE, flags)


class Domains:
    """The domains of one libvirtd that have Kilonova's mark."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._lock = threading.Lock()
        #: Cache of marks by domain uuid, None for a domain without a mark. A libvirt event for a redefined domain
        #: invalidates its entry.
        self._marks: dict[str, GuestMark | None] = {}
        self._shapes = CheckedShapes()

    def forget(self, uuid: str) -> None:
        """Invalidate the cached mark of a domain."""
        with self._lock:
            self._marks.pop(uuid, None)

    def forget_all(self) -> None:
        self._shapes.forget()
        with self._lock:
            self._marks.clear()

    def find(self, uuid: str) -> OwnDomain | None:
        """Return a domain with Kilonova's mark, or None if there is none. Raises: DriverError."""
        connection = self._connection.use()
        with explained(f"find guest {uuid}"):
            try:
                handle = connection.lookupByUUIDString(uuid)
                mark = _read(handle)
            except libvirt.libvirtError as error:
                if error.get_error_code() in _ABSENT:
                    return None
                raise
        return None if mark is None else OwnDomain(handle, mark)

    def get(self, uuid: str) -> OwnDomain:
        """Return a domain with Kilonova's mark. Raises: GuestMissing, DriverError."""
        found = self.find(uuid)
        if found is None:
            raise GuestMissing(uuid)
        return found

    def define(self, xml: str, mark: GuestMark) -> OwnDomain:
        """Define a domain, or redefine it.

        Raises: DriverError, also if a domain without Kilonova's mark already has the uuid in ``mark``.
        """
        connection = self._connection.use()
        if self.find(mark.uuid) is None and self._is_taken(connection, mark.uuid):
            raise DriverError(f"Guest {mark.uuid} already exists on this host, but was not created by Kilonova.")
        with explained(f"define guest {mark.uuid}"):
            is_checked = self._shapes.has(xml)
            try:
                handle = connection.defineXMLFlags(xml, 0 if is_checked else libvirt.VIR_DOMAIN_DEFINE_VALIDATE)
            except libvirt.libvirtError as error:
                name = ET.fromstring(xml).findtext("name", "")  # noqa: S314 - the XML is from this process
                if _has_name(connection, name, besides=mark.uuid):
                    raise DriverError(f"There is already another guest with the name {name} on this host.") from error
                raise
            self._shapes.add(xml)
        self.forget(mark.uuid)
        return OwnDomain(handle, mark)

    def states(self) -> dict[str, PowerState]:
        """Return instance uuid → power state of all domains with Kilonova's mark. Raises: DriverError."""
        flags = libvirt.VIR_CONNECT_GET_ALL_DOMAINS_STATS_NOWAIT
        connection = self._connection.use()
        found: dict[str, PowerState] = {}
        with explained("list its guests"):
            for handle, stats in connection.getAllDomainStats(libvirt.VIR_DOMAIN_STATS_STATE, flags):
                uuid = handle.UUIDString()
                if self._is_ours(handle, uuid):
                    state = _state_if_there(handle, stats.get("state.state", libvirt.VIR_DOMAIN_NOSTATE))
                    if state is not None:
                        found[uuid] = state
        return found

    def all(self) -> Iterator[OwnDomain]:
        """Yield all domains with Kilonova's mark; the marks are read from libvirt, not cached. Raises: DriverError."""
        connection = self._connection.use()
        with explained("list its guests"):
            for handle in connection.listAllDomains():
                try:
                    mark = _read(handle)
                except libvirt.libvirtError as error:
                    if error.get_error_code() not in _ABSENT:
                        raise
                    continue  # the domain has no mark, or has been removed meanwhile
                if mark is not None:
                    yield OwnDomain(handle, mark)

    def _is_ours(self, handle: Any, uuid: str) -> bool:
        with self._lock:
            if uuid in self._marks:
                return self._marks[uuid] is not None
        try:
            mark = _read(handle)
        except libvirt.libvirtError as error:
            if error.get_error_code() == libvirt.VIR_ERR_NO_DOMAIN:
                return False
            if error.get_error_code() != libvirt.VIR_ERR_NO_DOMAIN_METADATA:
                raise
            mark = None
        with self._lock:
            self._marks[uuid] = mark
        return mark is not None

    def _is_taken(self, connection: Any, uuid: str) -> bool:
        try:
            connection.lookupByUUIDString(uuid)
        except libvirt.libvirtError as error:
            if error.get_error_code() == libvirt.VIR_ERR_NO_DOMAIN:
                return False
            raise
        return True


def _has_name(connection: Any, name: str, *, besides: str) -> bool:
    try:
        return bool(connection.lookupByName(name).UUIDString() != besides)
    except libvirt.libvirtError:
        return False


def _read(handle: Any) -> GuestMark | None:
    """Return the mark of a domain, or None. A mark with the uuid of another domain is a copy, and is ignored."""
    mark = read_mark(handle.metadata(libvirt.VIR_DOMAIN_METADATA_ELEMENT, NAMESPACE, 0))
    return mark if mark is not None and mark.uuid == handle.UUIDString() else None


def _power_off(handle: Any) -> None:
    try:
        handle.destroy()
    except libvirt.libvirtError as error:
        if error.get_error_code() != _ALREADY or handle.isActive():
            raise
    if handle.hasManagedSaveImage():
        handle.managedSaveRemove()


def _state(handle: Any, number: int) -> PowerState:
    state = _STATES.get(number, PowerState.NOSTATE)
    if state is PowerState.SHUTDOWN and handle.hasManagedSaveImage():
        return PowerState.SUSPENDED
    return state


def _state_if_there(handle: Any, number: int) -> PowerState | None:
    """Return the power state of a domain, or None if it was removed in the meantime."""
    try:
        return _state(handle, number)
    except libvirt.libvirtError as error:
        if error.get_error_code() == libvirt.VIR_ERR_NO_DOMAIN:
            return None
        raise
