# SPDX-License-Identifier: Apache-2.0
"""What a user is and may do."""

import falcon.asgi

from kilonova.dashboard.web.site import Site


class AboutMe:
    """/about-me."""

    def __init__(self, site: Site) -> None:
        self._site = site

    async def on_get(self, req: falcon.asgi.Request, resp: falcon.asgi.Response) -> None:
        """GET: the user, the project, the roles and the end of the session."""
        self._site.show(req, resp, "about_me.html", login=self._site.session(req).login)
