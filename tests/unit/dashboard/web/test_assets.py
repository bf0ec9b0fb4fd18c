# SPDX-License-Identifier: Apache-2.0
import gzip
import re

import pytest

from support.dashboards import Browser


@pytest.mark.parametrize("name", ["map.js", "fragments.js", "shell.js", "dashboard.css", "icons.svg", "brand.svg"])
def test_files_are_kept_by_browsers(browser: Browser, name: str) -> None:
    (release,) = set(re.findall(r"/static/(\w+)/", browser.get("/sign-in").text))
    plain = browser.get(f"/static/{release}/{name}")
    assert (plain.status_code, plain.headers["cache-control"]) == (200, "public, max-age=31536000, immutable")
    packed = browser.get(f"/static/{release}/{name}", **{"Accept-Encoding": "gzip"})
    assert gzip.decompress(packed.content) == plain.content
    assert browser.get(f"/static/other/{name}").headers["cache-control"] == "no-cache"


@pytest.mark.parametrize("path", ["x/..%2fsite.py", "x/../site.py", "x/%2e%2e/site.py", "x/.hidden", "x/", "x/none.js"])
def test_only_files_of_the_folder_are_sent(browser: Browser, path: str) -> None:
    assert browser.get(f"/static/{path}").status_code == 404
