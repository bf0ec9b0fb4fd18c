# SPDX-License-Identifier: Apache-2.0
"""The domains of a host that bear our mark; all others are as if they were not there."""

import threading
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from xml.etree import ElementTree as ET

import libvirt

from kilonova.compute.virt.libvirt.connection import Connection, explained
from kilonova.compute.virt.libvirt.domain.domain_shapes import CheckedShapes
from kilonova.compute.virt.libvirt.domain.marks import NAMESPACE, PREFIX, GuestMark, read_mark
from kilonova.errors import DriverError, GuestMissing
from kilonova.model.instance import PowerState

_STATES = {
    libvirt.VIR_DOMAIN_NOSTATE: PowerState.NOSTATE,
    libvirt.VIR_DOMAIN_RUNNING: PowerState.RUNNING,
    libvirt.VIR_DOMAIN_BLOCKED: PowerState.RUNNING,
    libvirt.VIR_DOMAIN_PAUSED: PowerState.PAUSED,
    libvirt.VIR_DOMAIN_SHUTDOWN: PowerState.RUNNING,  # it is shutting down
    libvirt.VIR_DOMAIN_SHUTOFF: PowerState.SHUTDOWN,
    libvirt.VIR_DOMAIN_CRASHED: PowerState.CRASHED,
    libvirt.VIR_DOMAIN_PMSUSPENDED: PowerState.SUSPENDED,
}
_UNDEFINE = (
    libvirt.VIR_DOMAIN_UNDEFINE_MANAGED_SAVE
    | libvirt.VIR_DOMAIN_UNDEFINE_SNAPSHOTS_METADATA
    | libvirt.VIR_DOMAIN_UNDEFINE_CHECKPOINTS_METADATA
)
#: What its firmware and its TPM remember. libvirt has it in places of its own, by name and uuid.
_FORGET = libvirt.VIR_DOMAIN_UNDEFINE_NVRAM | libvirt.VIR_DOMAIN_UNDEFINE_TPM
_REMEMBER = libvirt.VIR_DOMAIN_UNDEFINE_KEEP_NVRAM | libvirt.VIR_DOMAIN_UNDEFINE_KEEP_TPM
_ABSENT = frozenset({libvirt.VIR_ERR_NO_DOMAIN, libvirt.VIR_ERR_NO_DOMAIN_METADATA})
#: It is already as it was to become: off, for instance.
_ALREADY = libvirt.VIR_ERR_OPERATION_INVALID


@dataclass(frozen=True, slots=True)
class OwnDomain:
    """A domain with our mark. ``handle``: libvirt's ``virDomain``."""

    handle: Any
    mark: GuestMark

    @property
    def uuid(self) -> str:
        return self.mark.uuid

    def power_state(self) -> PowerState:
        """Raises: DriverError."""
        with explained(f"tell the state of guest {self.uuid}"):
            return _state(self.handle, self.handle.state()[0])

    def power_on(self) -> None:
        """Start it, or let it go on with the memory that was saved; one that runs is success. Raises: DriverError."""
        with explained(f"start guest {self.uuid}"):
            try:
                self.handle.create()
            except libvirt.libvirtError as error:
                if error.get_error_code() != _ALREADY or not self.handle.isActive():
                    raise

    def power_off(self) -> None:
        """Turn it off at once, and forget a saved memory; one that is off is success. Raises: DriverError."""
        with explained(f"power off guest {self.uuid}"):
            _power_off(self.handle)

    def ask_to_shut_down(self) -> None:
        """Press its power button. Raises: DriverError."""
        with explained(f"shut down guest {self.uuid}"):
            try:
                self.handle.shutdown()
            except libvirt.libvirtError as error:
                if error.get_error_code() != _ALREADY or self.handle.isActive():
                    raise

    def undefine(self, *, for_good: bool = True) -> None:
        """Power it off and have libvirt forget it, but not its disks; absent is success. Raises: DriverError.

        ``for_good``: with all that its firmware and its TPM remember, which a guest that is defined again needs.
        """
        with explained(f"remove guest {self.uuid}"):
            try:
                _power_off(self.handle)
                self.handle.undefineFlags(_UNDEFINE | (_FORGET if for_good else _REMEMBER))
            except libvirt.libvirtError as error:
                if error.get_error_code() not in _ABSENT:
                    raise

    def remark(self, mark: GuestMark) -> None:
        """Change its mark, of what runs and of what is defined. Raises: DriverError."""
        flags = libvirt.VIR_DOMAIN_AFFECT_CONFIG
        with explained(f"mark guest {self.uuid}"):
            if self.handle.isActive():
                flags |= libvirt.VIR_DOMAIN_AFFECT_LIVE
            self.handle.setMetadata(libvirt.VIR_DOMAIN_METADATA_ELEMENT, mark.bare_xml(), PREFIX, NAMESPACE, flags)


class Domains:
    """Those of one libvirtd."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._lock = threading.Lock()
        #: What domains bear, as long as libvirt does not say that they were defined anew.
        self._marks: dict[str, GuestMark | None] = {}
        self._shapes = CheckedShapes()

    def forget(self, uuid: str) -> None:
        """What is known of a domain may not be true any more."""
        with self._lock:
            self._marks.pop(uuid, None)

    def forget_all(self) -> None:
        self._shapes.forget()
        with self._lock:
            self._marks.clear()

    def find(self, uuid: str) -> OwnDomain | None:
        """Return a domain of ours, None where there is none. Raises: DriverError."""
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
        """Return a domain of ours. Raises: GuestMissing, DriverError."""
        found = self.find(uuid)
        if found is None:
            raise GuestMissing(uuid)
        return found

    def define(self, xml: str, mark: GuestMark) -> OwnDomain:
        """Have libvirt know a guest, or know it better. Raises: DriverError, also for one that is not ours."""
        connection = self._connection.use()
        if self.find(mark.uuid) is None and self._is_taken(connection, mark.uuid):
            raise DriverError(f"There is a guest {mark.uuid} on this host already, and it is not Kilonova's.")
        with explained(f"define guest {mark.uuid}"):
            is_checked = self._shapes.has(xml)
            try:
                handle = connection.defineXMLFlags(xml, 0 if is_checked else libvirt.VIR_DOMAIN_DEFINE_VALIDATE)
            except libvirt.libvirtError as error:
                name = ET.fromstring(xml).findtext("name", "")  # noqa: S314 - our own
                if _has_name(connection, name, besides=mark.uuid):
                    raise DriverError(f"There is another guest with the name {name} on this host already.") from error
                raise
            self._shapes.add(xml)
        self.forget(mark.uuid)
        return OwnDomain(handle, mark)

    def states(self) -> dict[str, PowerState]:
        """Return every guest by instance uuid. Raises: DriverError."""
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
        """Yield every guest, with its mark as it is now. Raises: DriverError."""
        connection = self._connection.use()
        with explained("list its guests"):
            for handle in connection.listAllDomains():
                try:
                    mark = _read(handle)
                except libvirt.libvirtError as error:
                    if error.get_error_code() not in _ABSENT:
                        raise
                    continue  # not ours, or gone meanwhile
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
    """Return the mark of a domain; one that speaks of another guest was copied from there, and is none."""
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
    """Return the state of a domain, None for one that has gone meanwhile."""
    try:
        return _state(handle, number)
    except libvirt.libvirtError as error:
        if error.get_error_code() == libvirt.VIR_ERR_NO_DOMAIN:
            return None
        raise
