# SPDX-License-Identifier: Apache-2.0
"""The answer about the capacity of the cloud, computed on one host table, and its form in JSON."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from kilonova.api.compute.possible_guests import require_possible_guest
from kilonova.api.operator.views import hindrances_view
from kilonova.errors import InvalidRequest
from kilonova.model.request_spec import RequestSpec
from kilonova.planning.capacity import Capacity, capacity
from kilonova.planning.hindrance import Hindrance
from kilonova.planning.mixes import Part, mix_capacity
from kilonova.planning.places import Place, aggregates, by_place, zones
from kilonova.planning.stranded import StrandedResource, stranded
from kilonova.records import dataclass
from kilonova.scheduler.devices.pci_request import Alias
from kilonova.scheduler.engine.engine import Engine
from kilonova.scheduler.host_table import HostTable

#: Rule in the reasons for a flavor that the API refuses together with the requested image.
_REQUEST = "request"
Tick = Callable[[float, str], None]
"""Function that is called regularly with the share done and a text. It stops the computation by an exception."""


@dataclass(frozen=True, slots=True)
class CountedCloud:
    """The hosts on which servers are counted, after commit ``seq``, with the rules."""

    hosts: HostTable
    seq: int
    engine: Engine
    aliases: Mapping[str, Alias]


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What to count. ``shares``: of a mix, one for each request; None: each request is counted alone.

    ``by``: ``aggregate`` or ``zone`` to divide the answer by these. ``default_zone``: zone of hosts that are in none.
    ``stranded``: whether to count the resources that none of the requests can use.
    """

    shares: Sequence[int] | None = None
    by: str | None = None
    stranded: bool = False
    default_zone: str

    def answer(self, cloud: CountedCloud, requests: Sequence[RequestSpec], tick: Tick) -> dict[str, Any]:
        """Return the answer, JSON-ready. ``requests``: one for each flavor. Raises: RuleFailed."""
        found = self._alone(cloud, requests, tick) if self.shares is None else self._mixed(cloud, requests, tick)
        body = {"seq": cloud.seq, **found}
        if self.stranded:
            possible = [spec for spec in requests if _refusal(cloud, spec) is None]
            check = partial(tick, 0.9, "stranded resources")
            resources = stranded(cloud.hosts, possible, cloud.engine, aliases=cloud.aliases, check=check)
            body["stranded"] = {each.resource_class: _stranded_view(each) for each in resources}
        return body

    def _alone(self, cloud: CountedCloud, requests: Sequence[RequestSpec], tick: Tick) -> dict[str, Any]:
        places = self._places(cloud.hosts)
        fits: dict[str, int | None] = {}
        refused = []
        for number, spec in enumerate(requests):
            done, name = number / len(requests), spec.flavor.name
            tick(done, f"flavor {name}")
            found = _of_flavor(cloud, spec, partial(tick, done, f"flavor {name}"))
            fits[name] = found.fits
            refused.append({"flavor": name, "reasons": hindrances_view(found.reasons), **self._by(places, found)})
        return {"fits": fits, "next": refused}

    def _mixed(self, cloud: CountedCloud, requests: Sequence[RequestSpec], tick: Tick) -> dict[str, Any]:
        assert self.shares is not None
        parts = [Part(spec, share, _refusal(cloud, spec)) for spec, share in zip(requests, self.shares, strict=True)]
        found = mix_capacity(cloud.hosts, parts, cloud.engine, aliases=cloud.aliases, check=partial(tick, 0.0, "mix"))
        names = [spec.flavor.name for spec in requests]
        counts = [None] * len(names) if found.fits is None else found.fits
        mix = {
            "shares": dict(zip(names, self.shares, strict=True)),
            "fits": None if found.fits is None else sum(found.fits),
        }
        body: dict[str, Any] = {"fits": dict(zip(names, counts, strict=True)), "next": [], "mix": mix}
        if found.refused is not None:
            reasons = hindrances_view(found.reasons)
            refusal = Capacity(sum(found.fits or ()), found.reasons, found.placed, found.last)
            by = self._by(self._places(cloud.hosts), refusal)
            body["next"] = [{"flavor": names[found.refused], "reasons": reasons, **by}]
        return body

    def _places(self, hosts: HostTable) -> tuple[Place, ...]:
        if self.by is None:
            return ()
        return aggregates(hosts) if self.by == "aggregate" else zones(hosts, self.default_zone)

    def _by(self, places: Sequence[Place], found: Capacity) -> dict[str, Any]:
        """Return the property ``by`` of an answer, which divides it by places."""
        if self.by is None:
            return {}
        if found.placed is None or found.last is None:
            every = [(place.name, int(np.count_nonzero(place.members)), found.fits, found.reasons) for place in places]
        else:
            divided = by_place(places, found.placed, found.last)
            every = [(each.name, each.hosts, each.fits, each.reasons) for each in divided]
        return {
            "by": [
                {self.by: name, "hosts": hosts, "fits": fits, "reasons": hindrances_view(reasons)}
                for name, hosts, fits, reasons in every
            ]
        }


def _refusal(cloud: CountedCloud, spec: RequestSpec) -> Hindrance | None:
    """Return why the API refuses the flavor of a request together with its image, or None."""
    try:
        require_possible_guest(spec.flavor, spec.image, cloud.aliases, flavor_field="flavors", image_field="image")
    except InvalidRequest as error:
        return Hindrance(_REQUEST, error.message, 0)
    return None


def _of_flavor(cloud: CountedCloud, spec: RequestSpec, check: Callable[[], None]) -> Capacity:
    refusal = _refusal(cloud, spec)
    if refusal is not None:
        return Capacity(0, (refusal,))
    return capacity(cloud.hosts, spec, cloud.engine, aliases=cloud.aliases, check=check)


def _stranded_view(found: StrandedResource) -> dict[str, Any]:
    return {
        "capacity": found.capacity,
        "free": found.free,
        "stranded": found.stranded,
        "share": round(found.share, 6),
        "causes": [{"rule": each.rule, "amount": each.amount, "hosts": each.hosts} for each in found.causes],
    }
