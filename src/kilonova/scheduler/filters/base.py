# SPDX-License-Identifier: Apache-2.0
"""The base of filters written Nova's way."""

from collections.abc import Iterable, Iterator
from typing import Any


class BaseHostFilter:
    """Subclass this and override ``host_passes``; or ``filter_all``, to judge the hosts together.

    ``run_filter_once_per_request``: the answer cannot change between the servers of one request.
    ``RUN_ON_REBUILD``: also judges the present host of a server that is rebuilt with another image.

    Source: Nova admin guide, "Writing your own filter".
    """

    run_filter_once_per_request = False
    RUN_ON_REBUILD = False

    def host_passes(self, host_state: Any, filter_properties: Any) -> bool:
        """Return True to keep the host."""
        raise NotImplementedError

    def filter_all(self, filter_obj_list: Iterable[Any], spec_obj: Any) -> Iterator[Any] | None:
        """Yield the hosts that pass; None instead of an iterator leaves no host at all."""
        return (host_state for host_state in filter_obj_list if self._filter_one(host_state, spec_obj))

    def _filter_one(self, obj: Any, spec_obj: Any) -> bool:
        return self.host_passes(obj, spec_obj)

    def run_filter_for_index(self, index: int) -> bool:
        """Tell whether the filter is asked for the server with this number of one request."""
        return not self.run_filter_once_per_request or index == 0
