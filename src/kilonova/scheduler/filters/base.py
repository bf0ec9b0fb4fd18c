# SPDX-License-Identifier: Apache-2.0
"""Base class of Nova-style filters."""

from collections.abc import Iterable, Iterator
from typing import Any


class BaseHostFilter:
    """Base class of Nova-style filters. Override ``host_passes``, or ``filter_all`` to judge all hosts together.

    ``run_filter_once_per_request``: the result is the same for all servers of one request.
    ``RUN_ON_REBUILD``: the filter also judges the current host of a server that is rebuilt with another image.

    Source: Nova admin guide, "Writing your own filter".
    """

    run_filter_once_per_request = False
    RUN_ON_REBUILD = False

    def host_passes(self, host_state: Any, filter_properties: Any) -> bool:
        """Return True to keep the host."""
        raise NotImplementedError

    def filter_all(self, filter_obj_list: Iterable[Any], spec_obj: Any) -> Iterator[Any] | None:
        """Return an iterator of the hosts that pass. None means that no host passes."""
        return (host_state for host_state in filter_obj_list if self._filter_one(host_state, spec_obj))

    def _filter_one(self, obj: Any, spec_obj: Any) -> bool:
        return self.host_passes(obj, spec_obj)

    def run_filter_for_index(self, index: int) -> bool:
        """Tell whether the filter runs for the server with this index in a request."""
        return not self.run_filter_once_per_request or index == 0
