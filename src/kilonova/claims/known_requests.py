# SPDX-License-Identifier: Apache-2.0
"""What claims derive from a request: its Placement query, devices and kind of guest, once for all of the same shape."""

from collections.abc import Hashable, Mapping

from kilonova.model.request_spec import RequestSpec, ResourceQuery
from kilonova.records import dataclass, replace
from kilonova.scheduler.devices.choice import DeviceNeeds, needs_of
from kilonova.scheduler.devices.pci_request import Alias
from kilonova.scheduler.engine.request_shape import request_shape
from kilonova.scheduler.guests import GuestKind, guest_of
from kilonova.scheduler.resources import with_resources

_MOST = 4096


@dataclass(frozen=True, slots=True)
class DerivedRequest:
    """``query``: with the resources of flavor, image and ports. ``shape``: of the request with this query."""

    query: ResourceQuery
    needs: DeviceNeeds
    guest: GuestKind
    shape: Hashable | None

    @classmethod
    def of(cls, spec: RequestSpec, aliases: Mapping[str, Alias]) -> "DerivedRequest":
        """Raises: InvalidRequest, for contradictory options."""
        complete = with_resources(spec)
        needs = needs_of(complete, aliases)
        return cls(complete.query, needs, guest_of(complete), request_shape(complete, ""))


class KnownRequests:
    """The derived values of the shapes that were requested last. The caller holds a lock during each call.

    ``aliases``: the configured PCI aliases. ``most``: number of shapes to keep.
    """

    def __init__(self, aliases: Mapping[str, Alias], most: int = _MOST) -> None:
        self._aliases = aliases
        self._most = most
        self._by_shape: dict[Hashable, DerivedRequest] = {}

    def derived(self, spec: RequestSpec) -> tuple[RequestSpec, DerivedRequest]:
        """Return the request with its complete query, and the derived values. Raises: InvalidRequest."""
        shape = request_shape(spec, "")
        known = None if shape is None else self._by_shape.get(shape)
        if known is None:
            known = DerivedRequest.of(spec, self._aliases)
            if shape is not None:
                if len(self._by_shape) >= self._most:
                    self._by_shape.pop(next(iter(self._by_shape)))
                self._by_shape[shape] = known
        return replace(spec, query=known.query), known
