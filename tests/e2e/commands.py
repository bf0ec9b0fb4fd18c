# SPDX-License-Identifier: Apache-2.0
"""Commands of the stock client that several tests use."""


def server_create(name: str, flavor: str = "m1.tiny", image: str = "tiny") -> tuple[str, ...]:
    return ("server", "create", "--flavor", flavor, "--image", image, name)
