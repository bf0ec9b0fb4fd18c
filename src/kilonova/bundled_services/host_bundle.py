# SPDX-License-Identifier: Apache-2.0
"""What a host of another machine needs to join the networks of a cloud, as a folder.

::

    FOLDER/host.json               the host, and the address of the cloud's southbound database
           HOST.pem, HOST.key      the host's certificate
           ca.pem                  the authority that has signed the database's certificate

The certificate makes the database let the host change the records of this host only (``ovn_tls.py``).
"""

import json
from pathlib import Path

from kilonova.bundled_services.certificate_files import Certificate
from kilonova.bundled_services.cloud_address import CloudAddress
from kilonova.bundled_services.ovn_tls import SOUTHBOUND, DatabaseTls
from kilonova.bundled_services.private_file import write_private
from kilonova.errors import ConfigurationError
from kilonova.records import dataclass

_NOTE = "host.json"
#: Names of certificates that are no hosts'.
_RESERVED = frozenset({"server", "client"})


@dataclass(frozen=True, slots=True)
class HostBundle:
    """The folder ``folder``. ``southbound``: target of a connection to the southbound database."""

    folder: Path
    host: str
    southbound: str

    @property
    def certificate(self) -> Certificate:
        return Certificate(self.folder, self.host)

    @property
    def cloud_address(self) -> str:
        """The address of the cloud's machine."""
        return self.southbound.removeprefix("ssl:").rpartition(":")[0]

    def copy_to(self, folder: Path) -> None:
        """Copy the certificate to a folder, which is created. Raises: OSError."""
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        _copy(self.certificate, Certificate(folder, self.host))


def make_bundle(cloud: Path, host: str, folder: Path) -> HostBundle:
    """Make a host's certificate, and write the host's bundle to ``folder``. ``cloud``: data folder of the cloud.

    Raises: ConfigurationError, OSError.
    """
    southbound = CloudAddress.of_cloud(cloud).southbound_for(host)
    if host in _RESERVED:
        raise ConfigurationError(f"a host of another machine cannot have the name {host}")
    bundle = HostBundle(folder, host, southbound)
    made = DatabaseTls(cloud / "ovn", SOUTHBOUND, southbound).certify(host)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    _copy(made, bundle.certificate)
    write_private(folder / _NOTE, json.dumps({"host": host, "southbound": southbound}, indent=2) + "\n")
    return bundle


def read_bundle(folder: Path) -> HostBundle:
    """Return the bundle in a folder. Raises: ConfigurationError if a file is missing or damaged."""
    try:
        noted = json.loads((folder / _NOTE).read_text(encoding="utf-8"))
        bundle = HostBundle(folder, str(noted["host"]), str(noted["southbound"]))
    except OSError as error:
        raise ConfigurationError(f"{folder} is no bundle of `kilonova compute certify`: {error.strerror}") from error
    except (ValueError, KeyError, TypeError) as error:
        raise ConfigurationError(f"{folder / _NOTE} is damaged: {error}") from error
    files = bundle.certificate
    for file in (files.certificate, files.key, files.authority):
        if not file.is_file():
            raise ConfigurationError(f"{folder} is no bundle of `kilonova compute certify`: {file.name} is missing")
    return bundle


def _copy(source: Certificate, target: Certificate) -> None:
    for name in ("key", "certificate", "authority"):
        write_private(getattr(target, name), getattr(source, name).read_text(encoding="ascii"))
