# SPDX-License-Identifier: Apache-2.0
"""All hosts of real guests of a cloud, and their networks. Several hosts of one machine have a network namespace each.

::

    kilonova up ── OVN's databases, northd     DIR/ovn
               ├── host 1: Open vSwitch, ovn-controller, metadata service, libvirtd   DIR/ovn, DIR/libvirt
               └── host 2: the same            DIR/ovn/hosts/NAME-2, DIR/hosts/NAME-2
"""

from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path

from kilonova.bundled_services.ovn import Ovn
from kilonova.cli.up.children import Watched
from kilonova.cli.up.host_options import GuestsOnStop
from kilonova.cli.up.libvirt import LibvirtSide, why_no_kvm_here
from kilonova.scenario.options import Sections


def host_names(first: str, count: int) -> tuple[str, ...]:
    """Return the names of ``count`` hosts, of which the first has the name ``first``."""
    return (first, *(f"{first}-{number}" for number in range(2, count + 1)))


class RealHosts:
    """The hosts of real guests with the names ``names``. ``networks``: whether the guests have networks.

    ``ovn_address``: as in :class:`Ovn`. ``why_no_kvm``: as in :class:`LibvirtSide`. ``sides``: the hosts.
    """

    def __init__(
        self,
        folder: Path,
        names: Sequence[str],
        operator: Sections,
        why_no_kvm: Callable[[], str | None] = why_no_kvm_here,
        *,
        networks: bool = False,
        ovn_address: str | None = None,
    ) -> None:
        self.ovn = Ovn(folder, *names, address=ovn_address) if networks else None
        hosts = [None] * len(names) if self.ovn is None else self.ovn.hosts
        test = cache(why_no_kvm)
        self.sides = tuple(
            LibvirtSide(
                folder if number == 0 else folder / "hosts" / name,
                name,
                operator,
                test,
                network=host,
                suffix="" if number == 0 else f" of {name}",
            )
            for number, (name, host) in enumerate(zip(names, hosts, strict=True))
        )

    @property
    def why_emulated(self) -> str | None:
        """Why KVM does not work, if the CPU of guests is therefore emulated; else None."""
        return self.sides[0].why_emulated

    @property
    def libvirtds(self) -> Sequence[Watched]:
        """The libvirtds of the hosts, which must keep running."""
        return [side.libvirtd for side in self.sides if side.libvirtd is not None]

    @property
    def network_processes(self) -> Sequence[Watched]:
        """The processes of the guests' networks, which must keep running."""
        of_hosts = [side.metadata.process for side in self.sides if side.metadata is not None]
        return () if self.ovn is None else (*self.ovn.processes, *of_hosts)

    def start(self) -> None:
        """Start Open vSwitch, OVN and the hosts, and wait until they are ready.

        Call this from the main thread. Raises: ConfigurationError, Unavailable.
        """
        if self.ovn is not None:
            self.ovn.start()
        for side in self.sides:
            side.start()

    def control_options(self, *, serves: bool) -> Sections:
        """Return the control process's options for these hosts.

        ``serves``: whether the control process runs the agent of the host, which is the only one then.
        """
        return self.sides[0].control_options(serves=serves)

    def stop(self, guests: GuestsOnStop) -> str:
        """Stop the hosts, and their guests if ``guests`` is STOP; then Open vSwitch and OVN.

        Return a message about guests that keep running, or "". Call this after all other processes that can act on the
        guests have stopped.
        """
        try:
            return "\n".join(filter(None, [side.stop(guests) for side in self.sides]))
        finally:
            if self.ovn is not None:
                self.ovn.stop()
