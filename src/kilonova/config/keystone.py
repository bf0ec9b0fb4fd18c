# SPDX-License-Identifier: Apache-2.0
"""[keystone]: options of lookups in Keystone. Token validation has options of its own, those of keystonemiddleware."""

from typing import Annotated, ClassVar

from kilonova.config.option import Option
from kilonova.records import dataclass


@dataclass(frozen=True, slots=True)
class KeystoneSettings:
    """Address of Keystone, and options for the check of its certificate."""

    GROUP: ClassVar[str] = "keystone"

    endpoint_override: Annotated[str | None, Option("URL of Keystone; unset: [keystone_authtoken] auth_url.")] = None
    cafile: Annotated[str | None, Option("CA file to check Keystone's certificate with.")] = None
    insecure: Annotated[bool, Option("Do not check Keystone's certificate.")] = False

    @property
    def verify(self) -> bool | str:
        """The ``verify`` argument of HTTP clients: whether to check Keystone's certificate, or the CA file to use."""
        return not self.insecure and (self.cafile or True)
