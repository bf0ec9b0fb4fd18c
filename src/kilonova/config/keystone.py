# SPDX-License-Identifier: Apache-2.0
"""[keystone]: what Keystone is asked beside tokens, which keystonemiddleware reads options of its own about."""

from dataclasses import dataclass
from typing import Annotated, ClassVar

from kilonova.config.option import Option


@dataclass(frozen=True, slots=True)
class KeystoneSettings:
    """Where Keystone is, and how its certificate is checked."""

    GROUP: ClassVar[str] = "keystone"

    endpoint_override: Annotated[str | None, Option("URL of Keystone; unset: [keystone_authtoken] auth_url.")] = None
    cafile: Annotated[str | None, Option("File of the authorities that vouch for Keystone's certificate.")] = None
    insecure: Annotated[bool, Option("Do not check Keystone's certificate.")] = False

    @property
    def verify(self) -> bool | str:
        """Whether its certificate is checked, and with which authorities, as HTTP clients have it."""
        return not self.insecure and (self.cafile or True)
