# SPDX-License-Identifier: Apache-2.0
"""Checks before and after the upgrade of a cloud; no check changes anything."""

import shutil
from collections.abc import Callable, Iterator
from datetime import timedelta
from enum import IntEnum
from pathlib import Path

from kilonova.cli.cloud.printing import counted
from kilonova.cli.wiring.apis import policy_of
from kilonova.cli.wiring.ineffective_options import ineffective_options
from kilonova.config.settings import Settings
from kilonova.db import online_migrations, schema, switches, upgrade_state
from kilonova.db.database import Database
from kilonova.db.online_migrations.online_migration import pending
from kilonova.errors import ConfigurationError
from kilonova.messaging.codec import OLDEST, VERSION
from kilonova.records import dataclass

_GIB = 2**30
_LITTLE, _TOO_LITTLE = 2 * _GIB, _GIB // 10
_SHOWN = 5
#: Usual delay until another control process takes over the work of a control process that has stopped.
_GRACE = timedelta(seconds=60)


class Result(IntEnum):
    """Possible results of a check, as in ``nova-status``. The exit code is that of the worst result."""

    SUCCESS = 0
    WARNING = 1
    FAILURE = 2

    @property
    def word(self) -> str:
        return self.name.capitalize()


@dataclass(frozen=True, slots=True)
class Checked:
    name: str
    result: Result
    details: str = ""


def check_all(settings: Settings) -> Iterator[Checked]:
    """Yield the results of checks of the configuration, the database, agents and control processes."""
    yield _options(settings)
    yield _policies(settings)
    database = Database(settings.database.connection)
    try:
        is_usable = _schema(database)
        yield is_usable
        yield _disk(database, settings)
        if is_usable.result is Result.FAILURE or schema.current(database) != schema.head():
            return  # the other checks need the current schema
        checks: tuple[Callable[[Database], Checked], ...] = (_data, _agents, _leases, _workflows, _switches)
        for check in checks:
            yield check(database)
    finally:
        database.close()


def _options(settings: Settings) -> Checked:
    odd = list(ineffective_options(settings.conf, settings.scheduler))
    if not odd:
        return Checked("Options", Result.SUCCESS)
    return Checked("Options", Result.WARNING, _some(odd))


def _policies(settings: Settings) -> Checked:
    name = "Policy files"
    try:
        policy = policy_of(settings.conf)
    except ConfigurationError as error:
        return Checked(name, Result.FAILURE, error.message)
    if not policy.findings:
        return Checked(name, Result.SUCCESS)
    is_harmless = all(each.is_harmless for each in policy.findings)
    told = _some([str(each) for each in policy.findings])
    return Checked(name, Result.SUCCESS if is_harmless else Result.WARNING, told)


def _schema(database: Database) -> Checked:
    name = "Database schema"
    try:
        found = schema.current(database)
    except ConfigurationError as error:
        return Checked(name, Result.FAILURE, error.message)
    wanted = schema.head()
    if found == wanted:
        return Checked(name, Result.SUCCESS)
    if found is not None and schema.works_here(database, found):
        return Checked(name, Result.WARNING, f"The schema is at revision {found} of a later release.")
    if found is not None and not schema.is_known(found):
        return Checked(name, Result.FAILURE, f"The schema is at revision {found}, which this release does not know.")
    where = f"The schema is at revision {found or 'none'}, and this release needs {wanted}: "
    if database.is_sqlite:
        return Checked(name, Result.WARNING, f"{where}the next start upgrades it. Make a backup first.")
    return Checked(name, Result.FAILURE, f"{where}make a backup, then run `kilonova db upgrade`.")


def _disk(database: Database, settings: Settings) -> Checked:
    name = "Disk"
    files = [Path(str(database.url.database))] if database.is_sqlite else []
    files += [settings.log.file.path] if settings.log.file is not None else []
    short = []
    worst = Result.SUCCESS
    for folder in sorted({_existing(file.absolute().parent) for file in files}):
        free = shutil.disk_usage(folder).free
        if free < _LITTLE:
            worst = max(worst, Result.FAILURE if free < _TOO_LITTLE else Result.WARNING)
            short.append(f"{folder} has {free / _GIB:.1f} GiB left.")
    return Checked(name, worst, _some(short))


def _existing(folder: Path) -> Path:
    while not folder.exists():
        folder = folder.parent
    return folder


def _data(database: Database) -> Checked:
    waiting = {each.name: count for each in online_migrations.ALL if (count := pending(database, each))}
    if not waiting:
        return Checked("Online data migrations", Result.SUCCESS)
    told = ", ".join(f"{count} {name}" for name, count in waiting.items())
    return Checked("Online data migrations", Result.WARNING, f"{told}: run `kilonova db online-data-migrations`.")


def _agents(database: Database) -> Checked:
    with database.read() as connection:
        old = upgrade_state.old_agents(connection, VERSION)
    if not old:
        return Checked("Agents", Result.SUCCESS)
    refused = [each for each in old if each.message_version < OLDEST]
    told = _some([f"agent {each.name} of release {each.release or 'unknown'}" for each in refused or old])
    if refused:
        return Checked(
            "Agents", Result.FAILURE, f"This release refuses agents that are two or more releases old: {told}."
        )
    return Checked("Agents", Result.WARNING, f"Agents one release old, to be upgraded before the next release: {told}.")


def _leases(database: Database) -> Checked:
    with database.read() as connection:
        ended = upgrade_state.ended_with_work(connection, database.clock.now() - _GRACE)
    if not ended:
        return Checked("Leases", Result.SUCCESS)
    told = _some([f"{each.uuid} on {each.machine or 'an unknown machine'}" for each in ended])
    return Checked(
        "Leases",
        Result.WARNING,
        f"Unfinished work of stopped control processes waits for a running control process: {told}.",
    )


def _workflows(database: Database) -> Checked:
    with database.read() as connection:
        stuck = upgrade_state.stuck_workflows(connection)
    if not stuck:
        return Checked("Workflows", Result.SUCCESS)
    told = f"{counted(stuck, 'workflow')} {'is' if stuck == 1 else 'are'} stuck: see `kilonova workflows list --stuck`."
    return Checked("Workflows", Result.WARNING, told)


def _switches(database: Database) -> Checked:
    with database.read() as connection:
        switch = switches.find(connection, switches.READ_ONLY)
    if switch is None:
        return Checked("Switches", Result.SUCCESS)
    return Checked("Switches", Result.WARNING, "The APIs are read-only: run `kilonova read-only off`.")


def _some(told: list[str]) -> str:
    more = f" … and {len(told) - _SHOWN} more" if len(told) > _SHOWN else ""
    return "; ".join(told[:_SHOWN]) + more
