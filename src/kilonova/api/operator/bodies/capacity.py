# SPDX-License-Identifier: Apache-2.0
"""Body of POST /operator/v1/capacity."""

from msgspec import Struct

from kilonova.api.operator.bodies.explain import ExplainedFlavor, ExplainedImage


class AskedCapacity(Struct, frozen=True, kw_only=True):
    """The servers to count. ``flavors``: ids, names or properties; all enabled flavors if None.

    All other fields have the meaning of :class:`~kilonova.api.operator.bodies.explain.Explain`.
    """

    flavors: tuple[ExplainedFlavor | str, ...] | None = None
    image: ExplainedImage | str | None = None
    availability_zone: str | None = None
    hints: dict[str, object] = {}
    group: str | None = None
    project_id: str | None = None
