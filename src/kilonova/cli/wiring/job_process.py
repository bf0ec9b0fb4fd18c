# SPDX-License-Identifier: Apache-2.0
"""Wires the process of one job: settings, rules and a database that it only reads."""

import logging
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kilonova.api.operator.job_kinds import KINDS
from kilonova.claims.present_cloud import PresentCloud
from kilonova.cli.wiring.changed_rules import ChangedRules
from kilonova.cli.wiring.rules import load_rules
from kilonova.conductor.jobs.job_context import JobContext
from kilonova.conductor.jobs.job_process import JobChannel, compute
from kilonova.config.load import load_settings
from kilonova.config.settings import Settings
from kilonova.db.database import Database
from kilonova.errors import KilonovaError
from kilonova.scheduler.devices.pci_request import read_aliases


def command_of(settings: Settings, parent: int) -> list[str] | None:
    """Return the command of the process of a job; None if the settings come from no configuration file."""
    files = [str(Path(each).absolute()) for each in settings.conf.config_file or ()] if settings.conf else []
    if not files:
        return None
    options = [text for file in files for text in ("--config-file", file)]
    return [_python(), "-m", "kilonova", "job-worker", "--parent", str(parent), *options]


def _python() -> str:
    """Return the interpreter; another WSGI server may be the executable of this process."""
    own = Path(sys.executable)
    return str(own if own.name.startswith("python") else Path(sys.prefix, "bin", "python3"))


def run_job(channel: JobChannel, files: Sequence[str], name: str, parameters: Any) -> int:
    """Run a job of the kind ``name``, and send its result. Return the exit status."""
    logging.basicConfig(level=logging.WARNING, format="job: %(levelname)s %(name)s: %(message)s")
    try:
        settings = load_settings(files)
        cloud = PresentCloud(
            Database(settings.database.connection, response_timeout_s=settings.database.response_timeout_s),
            load_rules(settings).engine,
            read_aliases(settings.scheduler.pci_alias),
            ChangedRules(settings).rebuild,
        )
        kind = KINDS.get(name)
    except KilonovaError as error:
        channel.fail(error.message)
        return 1
    if kind is None:
        channel.fail(f"This release does not know jobs of the kind {name}.")
        return 1
    return compute(channel, kind.run, JobContext(cloud, channel.report), parameters)
