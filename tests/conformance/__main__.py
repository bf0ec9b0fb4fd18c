# SPDX-License-Identifier: Apache-2.0
"""Run all tests that openstack-placement ships: its YAML files of requests and expected responses.

``.venv-conformance`` contains that package, of which only the files are read. gabbi runs each file against a new
control process inside this process, on a copy of an empty SQLite database, with the configuration that the file
expects. Arguments are names of files to run; the exit code is 1 if a test failed.
"""

import io
import os
import shutil
import sys
import tempfile
import time
import unittest
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar
from uuid import uuid4

import httpx
import yaml
from gabbi import fixture, handlers, suitemaker

from conformance.clouds import CLOUDS, Node, variables
from kilonova.api.placement.family import RULES
from kilonova.cli.wiring.control import start_control_process
from kilonova.config.load import load_settings
from kilonova.db import schema
from kilonova.db.database import Database

ROOT = Path(__file__).parents[2]
HOST, PREFIX = "placement.example", "/placement"
_INVENTORY = {"reserved": 0, "min_unit": 1, "step_size": 1, "allocation_ratio": 1.0}
_OLD_DEFAULTS = "[oslo_policy]\nenforce_new_defaults = false\n"
#: Configuration of the named fixtures; all others get only the old policy defaults.
_CONFIGURED = {
    "CORSFixture": f"{_OLD_DEFAULTS}[cors]\nallowed_origin = http://valid.example.com\n"
    "allow_headers = openstack-api-version\n",
    "OpenPolicyFixture": f"{_OLD_DEFAULTS}policy_file = open.yaml\n",
    "SecureRBACPolicyFixture": "",
}

WsgiApp = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]


def main(names: list[str]) -> int:
    suite_folder = _suite_folder()
    files = sorted(file for file in suite_folder.glob("*.yaml") if not names or {file.name, file.stem} & set(names))
    if not files:
        sys.exit(f"conformance: no such file in {suite_folder}")
    began, passed, failed = time.monotonic(), 0, 0
    with tempfile.TemporaryDirectory(prefix="kilonova-conformance-") as folder:
        template = Path(folder) / "template.db"
        database = Database(f"sqlite:///{template}")
        schema.upgrade(database)
        database.close()
        (Path(folder) / "open.yaml").write_text("".join(f'"{rule.name}": "@"\n' for rule in RULES))
        for file in files:
            result, seconds = _run(file, template)
            passed, failed = passed + result.passed, failed + len(result.failed)
            print(f"{file.name:50} {result.passed:4} passed {len(result.failed):3} failed {seconds:6.1f} s", flush=True)
            for test, why in result.failed:
                print(f"    {test}: {why}")
    seconds = time.monotonic() - began
    print(f"{passed} passed, {failed} failed, of {len(files)} files in {seconds:.0f} s")
    return 1 if failed or not passed else 0


def _suite_folder() -> Path:
    found = sorted(ROOT.glob(".venv-conformance/lib/python3*/site-packages/placement/tests/functional/gabbits"))
    if not found:
        sys.exit("conformance: openstack-placement is missing; `make conformance` installs it")
    return found[-1]


def _run(file: Path, template: Path) -> tuple["Result", float]:
    began = time.monotonic()
    tests = yaml.safe_load(file.read_text())
    (wanted,) = tests.get("fixtures") or ["APIFixture"]
    result = Result(len(tests["tests"]))
    with _served(template, _CONFIGURED.get(wanted, _OLD_DEFAULTS)) as app:
        kind = type(wanted, (CloudFixture,), {"app": staticmethod(app), "nodes": CLOUDS[wanted]})
        fixtures = ModuleType("fixtures")
        setattr(fixtures, wanted, kind)
        suite = suitemaker.test_suite_from_dict(
            unittest.TestLoader(), file.stem, tests, str(file.parent), HOST, None, fixtures, lambda: app,
            prefix=PREFIX, handlers=[handler() for handler in handlers.RESPONSE_HANDLERS],
        )  # fmt: skip
        with redirect_stdout(io.StringIO()):
            suite.run(result)
    result.close()
    return result, time.monotonic() - began


@contextmanager
def _served(template: Path, configured: str) -> Iterator[WsgiApp]:
    """Start a control process on a database without content, and yield its WSGI application."""
    folder = Path(tempfile.mkdtemp(dir=template.parent))
    shutil.copy(template, folder / "kilonova.db")
    shutil.copy(template.parent / "open.yaml", folder)
    settings = f"[api]\nauth_strategy = noauth2\n[database]\nconnection = sqlite:///{folder / 'kilonova.db'}\n"
    (folder / "kilonova.conf").write_text(settings + configured)
    process = start_control_process(load_settings([str(folder / "kilonova.conf")]))

    def app(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        # httpx passes the path as text and the mount point twice; WSGI expects Latin-1 and no repetition.
        environ |= {"SCRIPT_NAME": "", "PATH_INFO": environ["PATH_INFO"].encode().decode("latin-1")}
        return process.application(environ, start_response)

    try:
        yield app
    finally:
        process.close()
        shutil.rmtree(folder)


class CloudFixture(fixture.GabbiFixture):  # type: ignore[misc]
    """Sets each environment variable to a new uuid, and builds the cloud of a file."""

    app: ClassVar[WsgiApp]
    nodes: ClassVar[tuple[Node, ...]]

    def start_fixture(self) -> None:
        os.environ.update({key: str(uuid4()) for key in variables()})
        os.environ.update({f"CUSTOM_RES_CLASS{number}": f"CUSTOM_IRON_NFV{number}" for number in ("", "1", "2")})
        headers = {"X-Auth-Token": "admin", "Accept": "application/json"}
        transport = httpx.WSGITransport(self.app)
        with httpx.Client(transport=transport, base_url=f"http://{HOST}{PREFIX}", headers=headers) as client:
            for node in self.nodes:
                _build(client, node)


def _build(client: httpx.Client, node: Node) -> None:
    uuid = os.environ[node.key]
    path = f"/resource_providers/{uuid}"
    parent = os.environ[node.parent] if node.parent else None
    name = node.name or os.environ["RP_NAME"]
    _send(client, "POST", "/resource_providers", {"name": name, "uuid": uuid, "parent_provider_uuid": parent})
    if node.aggregates:
        _send(client, "PUT", f"{path}/aggregates", [os.environ[key] for key in node.aggregates], "1.18")
    for resource_class, amount in node.inventories.items():
        if resource_class.startswith("CUSTOM_"):
            _send(client, "PUT", f"/resource_classes/{resource_class}")
        given = {"total": amount} if isinstance(amount, int) else dict(amount)
        values = {**_INVENTORY, "max_unit": given["total"], **given, "resource_class": resource_class}
        _send(client, "POST", f"{path}/inventories", values)
    if node.traits:
        for trait in node.traits:
            if trait.startswith("CUSTOM_"):
                _send(client, "PUT", f"/traits/{trait}")
        generation = _send(client, "GET", path).json()["generation"]
        body = {"traits": list(node.traits), "resource_provider_generation": generation}
        _send(client, "PUT", f"{path}/traits", body)
    for (consumer, user), resources in node.allocations.items():
        body = {
            "allocations": {uuid: {"resources": resources}},
            "project_id": os.environ["PROJECT_ID"],
            "user_id": os.environ[user],
            "consumer_generation": None,
        }
        _send(client, "PUT", f"/allocations/{os.environ[consumer]}", body, "1.28")


def _send(client: httpx.Client, method: str, path: str, body: Any = None, version: str = "1.30") -> httpx.Response:
    headers: Mapping[str, str] = {"OpenStack-API-Version": f"placement {version}"}
    return client.request(method, path, json=body, headers=headers).raise_for_status()


class Result(unittest.TestResult):
    """Counts each test once. Tests that did not run, because the cloud could not be built, count as failed."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self._missing = count
        self.passed = 0
        self.failed: list[tuple[str, str]] = []

    def addSuccess(self, test: Any) -> None:
        self._missing -= 1
        self.passed += 1

    def addExpectedFailure(self, test: Any, err: Any) -> None:
        self.addSuccess(test)

    def addFailure(self, test: Any, err: Any) -> None:
        self._missing -= 1
        self.failed.append((_name(test), str(err[1]).strip()))

    def addError(self, test: Any, err: Any) -> None:
        self.addFailure(test, err)

    def addUnexpectedSuccess(self, test: Any) -> None:
        self.addFailure(test, (None, "passed although it is expected to fail"))

    def addSkip(self, test: Any, reason: str) -> None:
        self.addFailure(test, (None, f"skipped: {reason}"))

    def close(self) -> None:
        self.failed += [("(rest of the file)", "did not run")] * self._missing


def _name(test: Any) -> str:
    return str(test.test_data["name"]) if hasattr(test, "test_data") else str(test)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
