# SPDX-License-Identifier: Apache-2.0
"""A private RabbitMQ in a folder, on its own loopback ports. It stops when the process that started it stops.

It consists of two processes: ``epmd``, Erlang's name directory, and ``beam``, the broker itself. It does not read the
files of the system's RabbitMQ and does not need its command line tools: users and queues come from a definitions file.
"""

import contextlib
import json
import os
import pwd
import secrets
import shutil
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from kilonova.bundled_services.free_ports import LOOPBACK, can_listen, free_ports
from kilonova.bundled_services.parent_death import die_with_parent
from kilonova.bundled_services.port_probe import is_listening
from kilonova.bundled_services.private_file import write_private
from kilonova.bundled_services.settings import LOG_BYTES, LOGS_KEPT
from kilonova.errors import ConfigurationError, Unavailable
from kilonova.records import dataclass

_USER = "rabbitmq"
_PROGRAMS = Path("/usr/lib/rabbitmq/bin")  # not /usr/sbin: the scripts there change user and folder
_SERVER = _PROGRAMS / "rabbitmq-server"
_START_S = 120.0
_STOP_S = 30.0
_CONTROL_S = 60.0
_PROBE_S = 2.0
_PORTS = ("amqp", "amqps", "erlang", "epmd")
_CONF = f"""\
# Written at every start.
log.file.level = info
log.file.rotation.size = {LOG_BYTES}
log.file.rotation.count = {LOGS_KEPT}
vm_memory_high_watermark.absolute = 512MB
disk_free_limit.absolute = 100MB
raft.wal_max_size_bytes = 67108864
"""
#: Erlang's configuration of host names: it contains localhost, so that no name server or system file is needed.
_HOSTS = """\
{lookup, [file, native]}.
{host, {127,0,0,1}, ["localhost"]}.
"""


@dataclass(frozen=True, slots=True)
class ServerCertificate:
    """The broker's TLS certificate.

    Clients may log in with certificates that ``ca_file`` signed; the CN of the certificate is the user name.
    """

    ca_file: Path
    cert_file: Path
    key_file: Path


def is_installed() -> bool:
    """Return whether RabbitMQ is installed on this machine."""
    return _SERVER.exists() and shutil.which("epmd") is not None


class RabbitMQ:
    """One private broker. Start it from the main thread: it is killed when the thread that started it exits.

    ``definitions``: users and queues, which RabbitMQ imports at each start before it listens. ``settings``: further
    lines of rabbitmq.conf. If this process runs as root, the broker runs as the user ``rabbitmq``, provided that this
    user can enter the folder. Raises: ConfigurationError.
    """

    def __init__(
        self,
        folder: Path,
        definitions: Mapping[str, Any],
        certificate: ServerCertificate | None = None,
        settings: Sequence[str] = (),
    ) -> None:
        if not is_installed():
            raise ConfigurationError("RabbitMQ is not installed. On Debian and Ubuntu: apt-get install rabbitmq-server")
        self.folder = folder.absolute()
        self._definitions = definitions
        self._certificate = certificate
        self._settings = settings
        self._epmd: subprocess.Popen[bytes] | None = None
        self._beam: subprocess.Popen[bytes] | None = None
        self._ports: Mapping[str, int] = {}
        self._log_mode = "wb"

    @property
    def port(self) -> int:
        return self._ports["amqp"]

    @property
    def tls_port(self) -> int:
        return self._ports["amqps"]

    @property
    def pid(self) -> int:
        """The broker's pid; tests freeze and resume it."""
        assert self._beam is not None
        return self._beam.pid

    def start(self) -> None:
        """Start the broker without waiting until it accepts connections. Also starts it again after ``kill``."""
        for name in ("data", "log", "home"):
            (self.folder / name).mkdir(mode=0o700, parents=True, exist_ok=True)
        self._choose_ports()
        self._write_files()
        self._hand_over()
        environment = self._environment()
        # start epmd first: otherwise the broker would start an epmd of its own
        if self._epmd is None or self._epmd.poll() is not None:
            epmd = ["epmd", "-port", str(self._ports["epmd"]), "-address", LOOPBACK]
            self._epmd = self._spawn(epmd, environment, "epmd.log")
            self._wait_for_port("epmd", self._epmd, _STOP_S)
        self._beam = self._spawn([str(_SERVER)], environment, "start.log")
        self._log_mode = "ab"  # a restart keeps the output of the broker that was killed

    def is_ready(self) -> bool:
        """Return whether the broker accepts connections.

        Raises: Unavailable with the broker's last output if it has exited.
        """
        assert self._beam is not None
        if self._beam.poll() is not None:
            raise Unavailable(f"RabbitMQ ended with exit status {self._beam.returncode}:\n{self.last_words()}")
        return is_listening(LOOPBACK, self._ports["amqp"], _PROBE_S)

    def wait(self) -> None:
        """Wait until the broker accepts connections. Raises: Unavailable."""
        assert self._beam is not None
        self._wait_for_port("amqp", self._beam, _START_S)

    def stop(self) -> None:
        """Stop the broker and epmd. The broker gets SIGTERM, and SIGKILL after a timeout."""
        if self._beam is not None and self._beam.poll() is None:
            self._beam.send_signal(signal.SIGCONT)  # a process stopped by SIGSTOP does not handle SIGTERM
            self._beam.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._beam.wait(_STOP_S)
        self.kill()
        if self._epmd is not None:
            self._epmd.kill()
            self._epmd.wait()
            self._epmd = None

    def kill(self) -> None:
        """Kill the broker to simulate a crash. It can be started again. epmd keeps running; only ``stop`` stops it."""
        if self._beam is not None:
            self._beam.kill()
            self._beam.wait()
            self._beam = None

    def control(self, *arguments: str) -> str:
        """Run ``rabbitmqctl``, which takes a second, and return its output. Raises: Unavailable if it fails."""
        environment = {**self._environment(), "RABBITMQ_CTL_ERL_ARGS": "-start_epmd false +S 1:1"}
        done: subprocess.CompletedProcess[str] = subprocess.run(  # noqa: S603
            [_PROGRAMS / "rabbitmqctl", "--quiet", *arguments],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            cwd=self.folder,
            env=environment,
            timeout=_CONTROL_S,
            check=False,
            **self._account(),
        )
        if done.returncode != 0:
            raise Unavailable(f"rabbitmqctl {arguments[0]} failed: {(done.stdout + done.stderr).strip()[-1000:]}")
        return done.stdout

    def last_words(self) -> str:
        """Return the end of the broker's start log."""
        return (self.folder / "log" / "start.log").read_text(errors="replace")[-3000:]

    def _choose_ports(self) -> None:
        """Choose the same ports as at the last start, but a free port in place of each port that is now in use.

        A broker that is started again after ``kill`` keeps its ports, because its clients reconnect to them.
        """
        if self._ports:
            return
        path = self.folder / "ports.json"
        kept: dict[str, int] = json.loads(path.read_text()) if path.exists() else {}
        others = iter(set(free_ports(2 * len(_PORTS))) - set(kept.values()))
        chosen: dict[str, int] = {}
        for name in _PORTS:
            is_usable = name in kept and can_listen(kept[name])
            chosen[name] = kept[name] if is_usable else next(others)
        write_private(path, json.dumps(chosen))
        self._ports = chosen

    def _write_files(self) -> None:
        conf = [_CONF, f"listeners.tcp.local = {LOOPBACK}:{self._ports['amqp']}", *self._settings]
        conf.append(f"load_definitions = {self.folder / 'definitions.json'}")
        plugins = []
        if self._certificate is not None:
            plugins.append("rabbitmq_auth_mechanism_ssl")
            conf += [
                f"listeners.ssl.local = {LOOPBACK}:{self._ports['amqps']}",
                f"ssl_options.cacertfile = {self._certificate.ca_file}",
                f"ssl_options.certfile = {self._certificate.cert_file}",
                f"ssl_options.keyfile = {self._certificate.key_file}",
                "ssl_options.verify = verify_peer",
                "ssl_options.fail_if_no_peer_cert = false",
                "ssl_cert_login_from = common_name",
                "auth_mechanisms.1 = PLAIN",
                "auth_mechanisms.2 = AMQPLAIN",
                "auth_mechanisms.3 = EXTERNAL",
            ]
        write_private(self.folder / "rabbitmq.conf", "\n".join([*conf, ""]))
        write_private(self.folder / "definitions.json", json.dumps(self._definitions))
        write_private(self.folder / "enabled_plugins", f"[{','.join(plugins)}].\n")
        write_private(self.folder / "inetrc", _HOSTS)
        cookie = self.folder / "home" / ".erlang.cookie"
        if not cookie.exists():
            write_private(cookie, secrets.token_hex(16))
        cookie.chmod(0o400)

    def _account(self) -> dict[str, Any]:
        """Return the broker's user as arguments of ``subprocess``; {} if it is the user of this process."""
        if os.geteuid() != 0 or not all(parent.stat().st_mode & 0o001 for parent in self.folder.parents):
            return {}
        try:
            pwd.getpwnam(_USER)
        except KeyError:
            return {}
        return {"user": _USER, "group": _USER, "extra_groups": []}

    def _hand_over(self) -> None:
        """Make the broker's user the owner of the folder."""
        account = self._account()
        if not account:
            return
        for folder, _, files in os.walk(self.folder):
            for path in (folder, *(os.path.join(folder, name) for name in files)):  # noqa: PTH118  as walk says it
                shutil.chown(path, account["user"], account["group"])

    def _environment(self) -> dict[str, str]:
        arguments = "-noinput -start_epmd false +S 2:2 -kernel inet_dist_use_interface {127,0,0,1}"
        return {
            "PATH": os.environ.get("PATH", os.defpath),
            "LANG": "C.UTF-8",
            "HOME": str(self.folder / "home"),
            "ERL_EPMD_PORT": str(self._ports["epmd"]),
            "ERL_EPMD_ADDRESS": LOOPBACK,
            "ERL_INETRC": str(self.folder / "inetrc"),
            "RABBITMQ_NODENAME": "private@localhost",
            "RABBITMQ_CONF_ENV_FILE": "/dev/null",
            "RABBITMQ_CONFIG_FILE": str(self.folder / "rabbitmq.conf"),
            "RABBITMQ_ADVANCED_CONFIG_FILE": str(self.folder / "advanced.config"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(self.folder / "enabled_plugins"),
            "RABBITMQ_MNESIA_BASE": str(self.folder / "data"),
            "RABBITMQ_LOG_BASE": str(self.folder / "log"),
            "RABBITMQ_PID_FILE": str(self.folder / "data" / "pid"),
            "RABBITMQ_DIST_PORT": str(self._ports["erlang"]),
            "RABBITMQ_ALLOW_INPUT": "1",  # makes rabbitmq-server replace itself by the broker (exec)
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": arguments,
        }

    def _spawn(self, command: Sequence[str], environment: Mapping[str, str], log: str) -> subprocess.Popen[bytes]:
        parent = os.getpid()
        with (self.folder / "log" / log).open(self._log_mode) as output:
            return subprocess.Popen(  # noqa: S603
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=self.folder,
                env=dict(environment),
                process_group=0,  # Ctrl-C must reach the supervisor only
                preexec_fn=lambda: die_with_parent(parent),  # noqa: PLW1509  after the change of user, which clears it
                **self._account(),
            )

    def _wait_for_port(self, name: str, process: subprocess.Popen[bytes], timeout_s: float) -> None:
        deadline = time.monotonic() + timeout_s
        while not is_listening(LOOPBACK, self._ports[name], _PROBE_S):
            if process.poll() is not None:
                raise Unavailable(f"RabbitMQ ended with exit status {process.returncode}:\n{self.last_words()}")
            if time.monotonic() > deadline:
                raise Unavailable(f"RabbitMQ is not listening after {timeout_s:g} s; see {self.folder / 'log'}")
            time.sleep(0.05)
