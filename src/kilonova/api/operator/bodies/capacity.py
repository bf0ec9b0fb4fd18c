# SPDX-License-Identifier: Apache-2.0
"""Body of POST /operator/v1/capacity."""

from kilonova.api.operator.bodies.explain import DescribedRequest, ExplainedFlavor


class AskedCapacity(DescribedRequest, frozen=True, kw_only=True):
    """The servers to count. ``flavors``: ids, names or properties; all enabled flavors if None."""

    flavors: tuple[ExplainedFlavor | str, ...] | None = None
