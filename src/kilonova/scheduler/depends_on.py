# SPDX-License-Identifier: Apache-2.0
"""Declarations of what a rule's results depend on, so that the results can be kept for the next request of its shape.

Every result for a host may depend on what consecutive snapshots share about this host (names, its aggregates, traits,
capabilities, inventories, the status of its service) and on the shape of the request
(:mod:`kilonova.scheduler.engine.request_shape`). It must not depend on other hosts, or on aggregates without this host;
only request filters may read all aggregates. After a change of a service or an aggregate, all rules judge its hosts
again; any other change of shared values drops all kept results. Everything else that a rule reads is declared as its
``depends_on``.
"""

from enum import Flag, auto


class DependsOn(Flag):
    """What the results of a rule depend on, besides shared columns and the shape of the request.

    ``ROWS``: usage, instances, devices and metrics of the judged host. The result for one host does not depend on the
    rows of other hosts.
    ``TIME``: the time of the snapshot. The rule needs a method ``unchanged_until(hosts)``, which returns the time until
    which its results stay the same, in epoch seconds, if only time passes. In ``hosts``, the ``last_seen`` of hosts
    whose service is up is infinite. With the optional attribute ``only_silent_hosts``, the results for these hosts do
    not change with time.
    ``NAMES``: the server group of the request, or the instances that its hints name (the hints in ``reads``). Requests
    with such names are always decided in full.
    ``REQUEST`` (weighers only): the shape of the request. Ratings without this flag are shared by all requests.
    """

    SHARED = 0
    ROWS = auto()
    TIME = auto()
    NAMES = auto()
    REQUEST = auto()


def dependence_of(rule: object) -> DependsOn | None:
    """Return the ``depends_on`` of a rule, or None if its class declares none; then no result of it can be kept.

    An inherited declaration is ignored, because the class may override methods so that they depend on more.
    """
    found = getattr(rule, "depends_on", None) if "depends_on" in vars(type(rule)) else None
    return found if isinstance(found, DependsOn) else None
