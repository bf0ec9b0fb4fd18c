# SPDX-License-Identifier: Apache-2.0
"""Paths of a certificate's files."""

from pathlib import Path

from kilonova.records import dataclass

#: Name of the authority's own files.
CA = "ca"


@dataclass(frozen=True, slots=True)
class Certificate:
    """A certificate, its private key, and the certificate of the authority that peers must have: files of one folder.

    ``name``: the common name, and the name of the files.
    """

    folder: Path
    name: str

    @property
    def certificate(self) -> Path:
        return self.folder / f"{self.name}.pem"

    @property
    def key(self) -> Path:
        return self.folder / f"{self.name}.key"

    @property
    def authority(self) -> Path:
        return self.folder / f"{CA}.pem"
