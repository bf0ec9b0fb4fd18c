# SPDX-License-Identifier: Apache-2.0
"""The stock clients ``openstack`` and ``nova``, and ``kilonova``, imported once.

Each command runs in a process forked from one that has loaded the client: its imports take longer than most commands.
"""

import multiprocessing
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from multiprocessing.context import BaseContext
from pathlib import Path

from support.command_process import append_output
from support.forkserver import PROCESSES, ensure_running, import_beforehand

_LOADED_BEFOREHAND = [
    "novaclient.client",
    "novaclient.shell",
    "novaclient.v2.shell",
    "openstackclient.shell",
    "openstackclient.compute.client",
    "openstackclient.compute.v2.server",
    "openstackclient.identity.client",
    "openstackclient.image.client",
    "openstackclient.network.client",
    "openstack.connection",
    "openstack.compute.v2._proxy",
    "openstack.image.v2._proxy",
    "keystoneauth1.loading._plugins.identity.generic",
    "keystoneclient.v3.client",
    "osc_placement.plugin",
    "cliff.formatters.table",
    "kilonova.cli.application",
    "kilonova.cli.cloud.connection",
    "kilonova.cli.commands.explain",
    "support.loaded_client",
]
#: Poll interval for `--wait` in seconds; the default of two to five seconds is too long for simulated hosts.
_PAUSES = 0.05
import_beforehand(*_LOADED_BEFOREHAND)


def run_client(
    words: Sequence[str],
    environment: Mapping[str, str],
    *,
    client: str = "openstack",
    timeout_s: float = 120,
    typed: str = "",
    processes: BaseContext = PROCESSES,
) -> subprocess.CompletedProcess[str]:
    """Run a client of ``_CLIENTS`` with these arguments, and with no other variables of the client.

    ``typed``: the text on standard input, a password for instance. ``processes``: starts the client's process.
    """
    if processes is PROCESSES:
        ensure_running()
    kept = {**without_credentials(os.environ), **environment}
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "in").write_text(typed, encoding="utf-8")
        out, err, code = Path(folder, "out"), Path(folder, "err"), Path(folder, "code")
        process = processes.Process(target=_main, args=(client, list(words), kept, out, err, code))
        process.start()
        process.join(timeout_s)
        if process.exitcode is None:
            process.kill()
            process.join()
            raise subprocess.TimeoutExpired([client, *words], timeout_s, out.read_bytes(), err.read_bytes())
        # The exit code from the child's own file is preferred: a thread that starts another process can reap the child
        # first.
        status = int(code.read_text()) if code.exists() else process.exitcode
        return subprocess.CompletedProcess(
            [client, *words], status, out.read_text(encoding="utf-8"), err.read_text(encoding="utf-8")
        )


def without_credentials(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the environment without the variables that define a client's cloud and credentials."""
    return {name: value for name, value in environment.items() if not name.startswith("OS_")}


def _main(client: str, words: Sequence[str], environment: Mapping[str, str], out: Path, err: Path, code: Path) -> None:
    os.environ.clear()
    os.environ.update(environment)
    os.setsid()  # detached from the terminal, where the client would prompt
    sys.stdin = out.with_name("in").open(encoding="utf-8")
    append_output(out, err)
    sys.argv = [client, *words]
    status = _CLIENTS[client](words)
    sys.stdout.flush()
    sys.stderr.flush()
    code.write_text(str(status or 0))
    sys.exit(status)


def _with_short_pauses() -> None:
    pause = time.sleep
    time.sleep = lambda seconds: pause(seconds * _PAUSES)


def _openstack(words: Sequence[str]) -> int:
    from openstackclient import shell

    _with_short_pauses()
    return int(shell.main(list(words)) or 0)


def _nova(words: Sequence[str]) -> int:
    from novaclient import shell

    _with_short_pauses()
    try:
        shell.main(list(words))
    except SystemExit as end:
        return int(end.code or 0)
    return 0


def _kilonova(words: Sequence[str]) -> int:
    from kilonova.cli.main import main

    return main(words)


def _kilonova_demo(words: Sequence[str]) -> int:
    """Run ``kilonova demo``, whose ``openstack`` commands are forked, too."""
    from kilonova.cli.scenarios import player

    class ForkedClient(player.OpenStackClient):
        def _finished(
            self, program: str, arguments: Sequence[str], environment: Mapping[str, str]
        ) -> subprocess.CompletedProcess[str]:
            return run_client(arguments, environment, processes=multiprocessing.get_context("fork"))

    player.OpenStackClient = ForkedClient  # type: ignore[misc]
    return _kilonova(("demo", *words))


#: Name of a client → the function that runs it.
_CLIENTS = {"openstack": _openstack, "nova": _nova, "kilonova": _kilonova, "kilonova demo": _kilonova_demo}
