# SPDX-License-Identifier: Apache-2.0
"""The user as whom Kilonova calls other services."""

from pathlib import Path

import pytest

from kilonova.config.console_proxy import load_proxy_settings
from kilonova.console_proxy.tokens import ComputeApi
from kilonova.errors import Unavailable
from kilonova.identity.keystone import compute_adapter_of


def conf(folder: Path, text: str) -> str:
    (folder / "proxy.conf").write_text(text)
    return str(folder / "proxy.conf")


USER = "auth_type = admin_token\nendpoint = http://127.0.0.1:1/compute/v2.1\ntoken = admin\n"


@pytest.mark.parametrize("section", ["nova", "service_user"])
def test_who_asks(tmp_path: Path, section: str) -> None:
    settings = load_proxy_settings([conf(tmp_path, f"[{section}]\n{USER}")])
    adapter = compute_adapter_of(settings.conf)
    assert adapter is not None
    assert adapter.service_type == "compute"
    with pytest.raises(Unavailable):
        ComputeApi(adapter).find("nobody-answers")
