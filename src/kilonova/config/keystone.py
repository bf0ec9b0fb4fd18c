# SPDX-License-Identifier: Apache-2.0
"""[keystone]: lookups in Keystone beside token validation, for which keystonemiddleware has its own options."""

from dataclasses import dataclass
from typing import Annotated, ClassVar

from kilonova.config.option import Option


@dataclass(frozen=True, slots=True)
class KeystoneSettings:
    """Address of Keystone, and how its certificate is checked."""

    GROUP: ClassVar[str] = "keystone"

    endpoint_override: Annotated[str | None, Option("URL of Keystone; unset: [keystone_authtoken] auth_url.")] = None
    cafile: Annotated[str | None, Option("CA file to check Keystone's certificate with.")] = None
    insecure: Annotated[bool, Option("Do not check Keystone's certificate.")] = False

    @property
    def verify(self) -> bool | str:
        """Whether to check Keystone's certificate, or the CA file to check it with: the ``verify`` of HTTP clients."""
        return not self.insecure and (self.cafile or True)
