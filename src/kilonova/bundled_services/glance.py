# SPDX-License-Identifier: Apache-2.0
"""Glance in one process: migrates the schema, then serves the API at ``/``. Images are plain files in its folder."""

import argparse
import atexit
import importlib.metadata
import os
import sqlite3
import sys
import traceback
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

from kilonova.bundled_services import deferred_modules, log_file, serving, sqlite, sqlite_url
from kilonova.bundled_services.parent_death import die_with_parent
from kilonova.bundled_services.private_file import write_private
from kilonova.bundled_services.settings import GlanceSettings, load_glance
from kilonova.errors import ConfigurationError
from kilonova.lasting import made_to_last
from kilonova.server.limits import Limits

_TRANSFERS = 16  # maximum number of concurrent uploads and downloads
# transport_url: Glance sends no notifications; the driver of the default URL would load an AMQP library.
_CONF = """\
# Written at every start by `kilonova up`.
[DEFAULT]
use_stderr = true
default_log_levels = stevedore=CRITICAL,os_brick=CRITICAL,oslo_policy=WARNING
enabled_backends = fs:file
transport_url = fake://
worker_self_reference_url = {url}

[database]
connection = {connection}

[glance_store]
default_backend = fs

[fs]
filesystem_store_datadir = {folder}/images

[os_glance_staging_store]
filesystem_store_datadir = {folder}/staging

[os_glance_tasks_store]
filesystem_store_datadir = {folder}/tasks

[paste_deploy]
flavor = keystone
config_file = {paste}

[keystone_authtoken]
www_authenticate_uri = {auth_url}
auth_url = {auth_url}
auth_type = password
username = {user}
password = {password}
project_name = {project}
user_domain_name = Default
project_domain_name = Default
region_name = {region}
service_token_roles_required = true

[oslo_concurrency]
lock_path = {folder}/locks
"""


def main() -> None:
    parser = argparse.ArgumentParser(description="Run Glance for `kilonova up`.")
    parser.add_argument("--settings", type=Path, required=True)
    settings = load_glance(parser.parse_args().settings)
    sys.argv[1:] = []  # hides the command line from oslo.config
    limits = Limits(token_needed=True, probe_path="/v2/-", streams=_is_image_data, max_streams=_TRANSFERS)
    with made_to_last():
        application = prepare(settings)
    try:
        serving.serve(application, settings.host, settings.port, limits)
    finally:
        _finish_tasks()


def _is_image_data(method: str, path: str) -> bool:
    """Return whether a request uploads image data. The body of such a request may have any size."""
    return method == "PUT" and path.endswith(("/file", "/stage"))


def prepare(settings: GlanceSettings) -> Callable[..., Any]:
    """Create or update Glance's data folder from the settings, and return Glance's WSGI application."""
    deferred_modules.defer(("openstack", "castellan", "cursive"))
    deferred_modules.make_unavailable("eventlet")
    folder = Path(settings.folder)
    for name in ("images", "staging", "tasks", "locks"):
        (folder / name).mkdir(mode=0o700, exist_ok=True)
    database = folder / "glance.db"
    _write_conf(settings, folder / "glance-api.conf", database)

    def migrate(part: Path) -> None:
        _migrate_in_child(settings, folder, part)

    sqlite.bring_up_to_date(database, importlib.metadata.version("glance"), migrate)
    _relocate_images(database, folder / "images")
    sqlite.lock_on_first_write()
    os.environ["OS_GLANCE_CONFIG_DIR"] = str(folder)
    from glance.common import wsgi_app  # noqa: PLC0415  # Glance parses argv when imported

    log_file.hide_sql_values()
    application: Callable[..., Any] = wsgi_app.init_app()
    log_file.take_over(settings.log_file)
    return application


def _relocate_images(database: Path, images: Path) -> None:
    """Set the image locations in the database to the folder ``images``, in case the folder was moved."""
    place = f"file://{images}/"
    elsewhere = "value LIKE 'file://%/' || image_id AND value <> ? || image_id"
    with closing(sqlite3.connect(database, timeout=sqlite_url.BUSY_TIMEOUT_S)) as connection, connection:
        connection.execute(f"UPDATE image_locations SET value = ? || image_id WHERE {elsewhere}", (place, place))  # noqa: S608


def _finish_tasks() -> None:
    """Wait for Glance's worker threads before the interpreter shuts down.

    Glance's atexit handler runs after thread pools have become unusable, and its error would hide the reason for the
    exit.
    """
    from glance.common import wsgi_app  # noqa: PLC0415 - of the bundled service

    atexit.unregister(wsgi_app.drain_workers)
    wsgi_app.drain_workers()


def _write_conf(settings: GlanceSettings, path: Path, database: Path) -> None:
    write_private(
        path,
        _CONF.format(
            url=settings.url,
            connection=sqlite_url.url(database),
            folder=settings.folder,
            paste=_paste_file(),
            auth_url=settings.auth_url,
            user=settings.service.user,
            password=settings.service.password,
            project=settings.service.project,
            region=settings.region,
        ),
    )


def _paste_file() -> Path:
    """Return the paste file that Glance's package installs. Raises: ConfigurationError."""
    for file in importlib.metadata.files("glance") or ():
        if file.name == "glance-api-paste.ini":
            return Path(str(file.locate())).resolve()
    raise ConfigurationError("The installed glance package has no glance-api-paste.ini.")


def _migrate_in_child(settings: GlanceSettings, folder: Path, part: Path) -> None:
    """Migrate the schema in a forked child: Glance's migrations use the global CONF, which can be set up only once."""
    import glance.db.sqlalchemy.api  # noqa: PLC0415  # imported before the fork, for parent and child

    parent = os.getpid()
    child = os.fork()
    if child == 0:
        try:
            die_with_parent(parent)
            _migrate(settings, folder, part)
        except BaseException:  # noqa: BLE001  # last handler of the child
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    import glance.common.wsgi_app  # noqa: F401, PLC0415  # import Glance while the child migrates

    if os.waitpid(child, 0)[1] != 0:
        raise ConfigurationError("The schema of the image service could not be migrated.")


def _migrate(settings: GlanceSettings, folder: Path, part: Path) -> None:
    from alembic import command  # noqa: PLC0415 - of the bundled service
    from glance.common import config  # noqa: PLC0415 - of the bundled service
    from glance.db.sqlalchemy import alembic_migrations  # noqa: PLC0415 - of the bundled service

    conf = folder / "migration.conf"
    _write_conf(settings, conf, part)
    config.CONF([], project="glance", default_config_files=[str(conf)])
    command.upgrade(alembic_migrations.get_alembic_config(), "heads")
    conf.unlink()


if __name__ == "__main__":
    main()
