# SPDX-License-Identifier: Apache-2.0
"""The list of stray guests, as printed."""

import io

from rich.console import Console

from kilonova.cli.commands import strays


def test_no_strays_are_good_news() -> None:
    out = io.StringIO()
    strays.show_strays({"strays": []}, Console(file=out, width=120))
    assert "every reported guest is where its server is recorded" in out.getvalue()
