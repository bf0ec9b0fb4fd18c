# SPDX-License-Identifier: Apache-2.0
"""Keystone in one process: creates schema, keys, accounts and catalogue, then serves ``/identity`` and ``/``.

Every step is idempotent: if a start is killed half way, the next start completes it.
"""

import argparse
import contextlib
import hashlib
import importlib.metadata
import json
import sys
import time
import uuid
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import sqlalchemy
from werkzeug.middleware.dispatcher import DispatcherMiddleware

from kilonova.bundled_services import deferred_modules, log_file, serving, sqlite, sqlite_url
from kilonova.bundled_services.private_file import write_private
from kilonova.bundled_services.settings import Account, CatalogEntry, KeystoneSettings, load_keystone
from kilonova.lasting import made_to_last
from kilonova.server.limits import Limits

# password_hash_rounds: bcrypt's minimum is enough for random passwords, and makes a login a quarter of a second faster.
# [cache]: without a cache, validating a token takes half a second.
_CONF = """\
# Written at every start by `kilonova up`.
[DEFAULT]
use_stderr = true
default_log_levels = alembic=WARNING,stevedore=CRITICAL,py.warnings=ERROR,keystone.common.password_hashing=ERROR

[database]
connection = {connection}

[cache]
enabled = true
backend = oslo_cache.dict

[identity]
password_hash_rounds = 4

[fernet_tokens]
key_repository = {fernet}

[fernet_receipts]
key_repository = {fernet}

[credential]
key_repository = {credential}

[oslo_middleware]
enable_proxy_headers_parsing = true
"""

#: Description, in the catalogue, of each service that the settings list. It marks the service as added by Kilonova.
_BUNDLED = "Started by kilonova up"


def main() -> None:
    parser = argparse.ArgumentParser(description="Run Keystone for `kilonova up`.")
    parser.add_argument("--settings", type=Path, required=True)
    settings = load_keystone(parser.parse_args().settings)
    sys.argv[1:] = []  # hides the command line from oslo.config
    with made_to_last():
        application = prepare(settings)
    mounted = DispatcherMiddleware(application, {"/identity": application})
    serving.serve(mounted, settings.host, settings.port, Limits())


def prepare(settings: KeystoneSettings) -> Callable[..., Any]:
    """Create or update Keystone's data folder from the settings, and return Keystone's WSGI application."""
    _spare_imports()
    import keystone.server  # noqa: PLC0415  # Keystone parses argv when imported
    from keystone.cmd.bootstrap import Bootstrapper  # noqa: PLC0415 - of the bundled service
    from keystone.server import backends  # noqa: PLC0415 - of the bundled service
    from keystone.server.flask.application import application_factory  # noqa: PLC0415 - of the bundled service
    from keystone.server.flask.core import setup_app_middleware  # noqa: PLC0415 - of the bundled service

    folder = Path(settings.folder)
    database = folder / "keystone.db"
    conf = folder / "keystone.conf"
    write_private(
        conf,
        _CONF.format(
            connection=sqlite_url.url(database), fernet=folder / "fernet-keys", credential=folder / "credential-keys"
        ),
    )
    keystone.server.configure(config_files=[str(conf)])
    log_file.take_over(settings.log_file)
    log_file.hide_sql_values()
    sqlite.bring_up_to_date(database, importlib.metadata.version("keystone"), _migrate)
    sqlite.lock_on_first_write()
    _make_keys()

    accounts = json.dumps([asdict(account) for account in settings.accounts])
    wanted = hashlib.sha256(accounts.encode()).hexdigest()
    mark = folder / "accounts-made"
    if mark.exists() and mark.read_text(encoding="utf-8") == wanted:
        backends.load_backends()
    else:
        _make_accounts(Bootstrapper(), settings)
        write_private(mark, wanted)
    for entry in settings.catalog:
        _publish(entry, settings.region)
    for service_type in settings.withdrawn:
        _withdraw(service_type)
    return setup_app_middleware(application_factory("public"))  # type: ignore[no-any-return,unused-ignore]


def _spare_imports() -> None:
    """Keep Keystone from importing what it does not use: the WSGI application runs no service of oslo.service."""
    deferred_modules.defer(("saml2", "keystoneclient"))
    deferred_modules.make_unavailable("eventlet")
    from oslo_service import backend  # noqa: PLC0415 - of the bundled service

    backend.init_backend(backend.BackendType.THREADING)


def _migrate(part: Path) -> None:
    from keystone.common.sql import upgrades  # noqa: PLC0415 - of the bundled service

    engine = sqlalchemy.create_engine(f"sqlite:///{part}")
    sqlalchemy.event.listen(engine, "connect", lambda raw, _: raw.execute("PRAGMA synchronous = OFF"))
    upgrades.offline_sync_database_to_version(engine=engine)
    engine.dispose()


def _make_keys() -> None:
    import keystone.conf  # noqa: PLC0415 - of the bundled service
    from keystone.common.fernet_utils import FernetUtils  # noqa: PLC0415 - of the bundled service
    from keystone.credential.providers.fernet.core import MAX_ACTIVE_KEYS  # noqa: PLC0415 - of the bundled service

    conf = keystone.conf.CONF
    for group, active in (("fernet_tokens", conf.fernet_tokens.max_active_keys), ("credential", MAX_ACTIVE_KEYS)):
        repository = Path(conf[group].key_repository)
        keys = FernetUtils(str(repository), active, group)
        keys.create_key_directory()
        keys.initialize_key_repository()
        if not (repository / "1").exists() and len(list(repository.iterdir())) < 2:
            keys.rotate_keys()  # an earlier start was killed between creating the first and the second key


def _make_accounts(bootstrapper: Any, settings: KeystoneSettings) -> None:
    admin = settings.accounts[0]
    bootstrapper.admin_username = admin.user
    bootstrapper.admin_password = admin.password
    bootstrapper.project_name = admin.project
    bootstrapper.admin_role_name = admin.roles[0]
    bootstrapper.region_id = settings.region
    bootstrapper.immutable_roles = True
    bootstrapper.bootstrap()
    known = [_make_account(account, bootstrapper.default_domain_id) for account in settings.accounts[1:]]
    if any(known):
        # Setting a password revokes all tokens issued in the same second, even those issued after the password was set.
        time.sleep(1 - time.time() % 1)


def _make_account(account: Account, domain_id: str) -> bool:
    """Create or update an account with its password and roles. Return whether the user existed before."""
    from keystone import exception  # noqa: PLC0415 - of the bundled service
    from keystone.common import driver_hints  # noqa: PLC0415 - of the bundled service
    from keystone.common.provider_api import ProviderAPIs as apis  # noqa: N813, PLC0415 - of the bundled service

    try:
        project = apis.resource_api.get_project_by_name(account.project, domain_id)
    except exception.ProjectNotFound:
        new = {"id": uuid.uuid4().hex, "name": account.project, "domain_id": domain_id, "enabled": True}
        project = apis.resource_api.create_project(new["id"], {**new, "description": ""})
    known = True
    try:
        user = apis.identity_api.get_user_by_name(account.user, domain_id)
        apis.identity_api.update_user(user["id"], {"password": account.password})
    except exception.UserNotFound:
        known = False
        user = apis.identity_api.create_user(
            {"name": account.user, "domain_id": domain_id, "enabled": True, "password": account.password}
        )
    for name in account.roles:
        hints = driver_hints.Hints()
        hints.add_filter("name", name)
        hints.add_filter("domain_id", None)
        role = apis.role_api.list_roles(hints)[0]
        with contextlib.suppress(exception.Conflict):  # Conflict: the user has the role already
            apis.assignment_api.add_role_to_user_and_project(user["id"], project["id"], role["id"])
    return known


def _publish(entry: CatalogEntry, region: str) -> None:
    """Create or update a service of the catalogue, with a public and an internal endpoint at the URL of ``entry``."""
    from keystone.common import driver_hints  # noqa: PLC0415 - of the bundled service
    from keystone.common.provider_api import ProviderAPIs as apis  # noqa: N813, PLC0415 - of the bundled service

    hints = driver_hints.Hints()
    hints.add_filter("type", entry.service_type)
    found = apis.catalog_api.list_services(hints)
    if found:
        service = found[0]
    else:
        service = {"id": uuid.uuid4().hex, "type": entry.service_type, "name": entry.name, "enabled": True}
        service["description"] = _BUNDLED
        apis.catalog_api.create_service(service["id"], service)
    hints = driver_hints.Hints()
    hints.add_filter("service_id", service["id"])
    hints.add_filter("region_id", region)
    present = {endpoint["interface"]: endpoint for endpoint in apis.catalog_api.list_endpoints(hints)}
    for interface in ("public", "internal"):
        endpoint = present.get(interface)
        if endpoint is None:
            new = {"id": uuid.uuid4().hex, "interface": interface, "url": entry.url, "enabled": True}
            apis.catalog_api.create_endpoint(new["id"], {**new, "service_id": service["id"], "region_id": region})
        elif endpoint["url"] != entry.url:
            apis.catalog_api.update_endpoint(endpoint["id"], {**endpoint, "url": entry.url})


def _withdraw(service_type: str) -> None:
    """Remove a service from the catalogue, with its endpoints, if `_publish` has added it."""
    from keystone.common import driver_hints  # noqa: PLC0415 - of the bundled service
    from keystone.common.provider_api import ProviderAPIs as apis  # noqa: N813, PLC0415 - of the bundled service

    hints = driver_hints.Hints()
    hints.add_filter("type", service_type)
    for service in apis.catalog_api.list_services(hints):
        if service.get("description") == _BUNDLED:
            apis.catalog_api.delete_service(service["id"])


if __name__ == "__main__":
    main()
