# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

from kilonova.bundled_services.certificate_files import Certificate


def test_the_files_of_a_certificate_are_in_one_folder() -> None:
    found = Certificate(Path("/tls"), "node1")
    assert (found.certificate, found.key) == (Path("/tls/node1.pem"), Path("/tls/node1.key"))
    assert found.authority == Path("/tls/ca.pem")
