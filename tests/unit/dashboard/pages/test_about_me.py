# SPDX-License-Identifier: Apache-2.0
from support.dashboards import Browser


def test_it_names_the_roles(member: Browser) -> None:
    page = member.get("/about-me").text
    assert "member" in page
    assert "Sign out everywhere" in page
