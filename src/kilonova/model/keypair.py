# SPDX-License-Identifier: Apache-2.0
"""Key pairs of users. The private key is never stored."""

from datetime import datetime

from kilonova.model.config_drive import PublicKey
from kilonova.records import dataclass


@dataclass(frozen=True, slots=True)
class Keypair:
    id: int
    user_id: str
    name: str
    type: str
    fingerprint: str
    public_key: str
    created_at: datetime | None = None

    @property
    def public_half(self) -> PublicKey:
        """The public key, in the form that is copied to servers."""
        return PublicKey(self.name, self.type, self.public_key)
