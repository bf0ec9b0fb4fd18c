# SPDX-License-Identifier: Apache-2.0
"""Body of POST /operator/v1/capacity."""

from msgspec import Struct

from kilonova.api.operator.bodies.explain import DescribedRequest, ExplainedFlavor
from kilonova.api.typed_body import Whole


class MixedFlavor(Struct, frozen=True, kw_only=True):
    """A flavor of a mix, and its share."""

    flavor: ExplainedFlavor | str
    share: Whole


class AskedCapacity(DescribedRequest, frozen=True, kw_only=True):
    """The servers to count. ``flavors``: ids, names or properties; all enabled flavors if None.

    ``mix``: flavors to count together, instead of ``flavors``. ``by``: ``aggregate`` or ``zone``.
    """

    flavors: tuple[ExplainedFlavor | str, ...] | None = None
    mix: tuple[MixedFlavor, ...] | None = None
    by: str | None = None
    stranded: bool = False
