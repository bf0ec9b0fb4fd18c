# SPDX-License-Identifier: Apache-2.0
"""Neutron as :mod:`kilonova.bundled_services.neutron` runs it, with users whose tokens it believes without Keystone.

A token is the id of a project, whose member the user is. ``service`` is the token of the service user, as in a cloud.
"""

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

from kilonova.bundled_services import serving
from kilonova.bundled_services.neutron import prepare
from kilonova.bundled_services.settings import load_neutron
from kilonova.server.limits import Limits

_ADMIN = ["admin", "member", "reader", "service"]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--settings", type=Path, required=True)
    settings = load_neutron(parser.parse_args().settings)
    import sys

    sys.argv[1:] = []
    serving.serve(_with_users(prepare(settings)), settings.host, settings.port, Limits())


def _with_users(application: Callable[..., Any]) -> Callable[..., Any]:
    from neutron_lib.context import Context

    def answer(environ: dict[str, Any], start_response: Any) -> Any:
        token = environ.get("HTTP_X_AUTH_TOKEN")
        if token:
            roles = _ADMIN if token == "service" else ["member", "reader"]
            environ["HTTP_X_PROJECT_ID"] = token
            environ["neutron.context"] = Context(user_id=f"user-of-{token}", project_id=token, roles=roles)
        return application(environ, start_response)

    return answer


if __name__ == "__main__":
    main()
