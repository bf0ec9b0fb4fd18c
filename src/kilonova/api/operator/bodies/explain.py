# SPDX-License-Identifier: Apache-2.0
"""Body of POST /operator/v1/explain."""

from msgspec import Struct

from kilonova.api.typed_body import Whole


class ExplainedFlavor(Struct, frozen=True, kw_only=True):
    """A flavor that is described in the request. Units: MiB (``ram``, ``swap``), GiB (``disk``, ``ephemeral``)."""

    vcpus: Whole
    ram: Whole
    name: str = ""
    disk: Whole = 0
    ephemeral: Whole = 0
    swap: Whole = 0
    extra_specs: dict[str, str] = {}


class ExplainedImage(Struct, frozen=True, kw_only=True):
    """An image that is described in the request, and need not exist in Glance."""

    id: str = ""
    name: str = ""
    properties: dict[str, str] = {}


class DescribedRequest(Struct, frozen=True, kw_only=True):
    """A server request without its flavor. ``image``: id, name or properties. ``group``: id of a server group."""

    image: ExplainedImage | str | None = None
    availability_zone: str | None = None
    hints: dict[str, object] = {}
    group: str | None = None
    project_id: str | None = None


class Explain(DescribedRequest, frozen=True, kw_only=True):
    """The server request to explain. ``flavor``: id, name or properties."""

    flavor: ExplainedFlavor | str
    count: Whole = 1
