# SPDX-License-Identifier: Apache-2.0
"""Private PostgreSQL and MariaDB servers on loopback, on a free port, without passwords; they end with the process.

The data is in a folder below the system's temporary folder. Unless ``durable``, the servers never flush to disk: a
commit survives a crash of the server but not of the machine, and is too fast for measurements. The servers refuse to
run as root; the tests then run them as the user ``nobody``.
"""

import contextlib
import os
import resource
import shutil
import signal
import subprocess
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import psycopg
import pymysql

from kilonova.bundled_services.free_ports import free_port
from kilonova.bundled_services.parent_death import die_with_parent

_USER = "kilonova"
_PREFIX = "kilonova-server-"
_START_S = 60.0
_INSTALL = "run tools/test_servers.sh to install it"


class DatabaseServer(ABC):
    """One database server. After ``prepare`` has created the data folder it can be started, killed and restarted."""

    backend: str

    def __init__(self, *, durable: bool = False) -> None:
        self.durable = durable
        _remove_leftovers()
        self.folder = Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getpid()}-{self.backend}-"))
        self.port = free_port()
        self._process: subprocess.Popen[bytes] | None = None
        if os.geteuid() == 0:
            shutil.chown(self.folder, "nobody")

    @abstractmethod
    def prepare(self) -> None:
        """Create the data folder."""

    @abstractmethod
    def connect(self) -> Any:
        """Return a DB-API connection in autocommit mode."""

    @abstractmethod
    def url(self, name: str) -> str:
        """Return the SQLAlchemy URL of a database."""

    @abstractmethod
    def copy(self, template: str, name: str) -> None:
        """Copy the database ``template``, which must have no connections and must not change afterwards."""

    @abstractmethod
    def _command(self) -> Sequence[str | Path]: ...

    def create(self, name: str) -> None:
        """Create an empty database."""
        self._do(f"CREATE DATABASE {name}")

    def drop(self, name: str) -> None:
        """Drop a database, and disconnect its clients where the server supports that."""
        self._do(f"DROP DATABASE {name}")

    def start(self) -> None:
        """Start the server without waiting for it.

        Call it from the main thread: the server dies with the calling thread.
        """
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                self._command(), stdout=log, stderr=log, stdin=subprocess.DEVNULL, cwd=self.folder, **_as_nobody()
            )

    def wait(self) -> None:
        """Wait until the server accepts connections.

        Raises: RuntimeError with the end of the server's log on timeout.
        """
        deadline = time.monotonic() + _START_S
        while True:
            assert self._process is not None
            try:
                self.connect().close()
            except (psycopg.OperationalError, pymysql.err.OperationalError) as error:
                if self._process.poll() is not None or time.monotonic() > deadline:
                    raise RuntimeError(f"{self.backend} did not start: {error}\n{self.log_tail()}") from error
                time.sleep(0.05)
            else:
                return

    @property
    def pid(self) -> int:
        """Pid of the server's first process, while it runs."""
        assert self._process is not None
        return self._process.pid

    def kill(self) -> None:
        """Kill the server with SIGKILL."""
        self._signal(signal.SIGKILL)

    def shut_down(self) -> None:
        """Shut the server down cleanly and disconnect its clients. It can be started again."""
        self._signal(signal.SIGINT if self.backend == "postgresql" else signal.SIGTERM)

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """Stop the server's processes (SIGSTOP) for the block: connections stay, and the kernel accepts new ones."""
        assert self._process is not None
        parent = psutil.Process(self._process.pid)
        everyone = [parent, *parent.children(recursive=True)]
        for each in everyone:
            each.suspend()
        try:
            yield
        finally:
            for each in everyone:
                with contextlib.suppress(psutil.NoSuchProcess):
                    each.resume()

    def stop(self) -> None:
        """Stop the server and delete its data."""
        self._signal(signal.SIGQUIT if self.backend == "postgresql" else signal.SIGKILL)
        shutil.rmtree(self.folder, ignore_errors=True)

    def log_tail(self) -> str:
        return (self.folder / "log").read_text(errors="replace")[-3000:]

    def _signal(self, number: int) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        # PostgreSQL's process per connection outlives the parent for a moment.
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        process.send_signal(number)
        process.wait()
        for child in children:
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(child), signal.SIGKILL)
            while Path(f"/proc/{child}/exe").exists():
                time.sleep(0.005)

    def _do(self, statement: str) -> None:
        connection = self.connect()
        try:
            connection.cursor().execute(statement)
        finally:
            connection.close()

    def _run(self, command: Sequence[str | Path], text: bytes = b"") -> None:
        done = subprocess.run(command, input=text, capture_output=True, cwd=self.folder, check=False, **_as_nobody())
        if done.returncode:
            raise RuntimeError(f"{command[0]} failed:\n{(done.stdout + done.stderr).decode(errors='replace')[-3000:]}")


class PostgreSQL(DatabaseServer):
    backend = "postgresql"

    def prepare(self) -> None:
        options = ("--auth=trust", "--encoding=UTF8", "--locale=C.UTF-8", "--no-sync", "--no-instructions")
        self._run([self._program("initdb"), "-D", self.folder / "data", "-U", _USER, *options])

    def connect(self) -> Any:
        return psycopg.connect(host="127.0.0.1", port=self.port, user=_USER, dbname="postgres", autocommit=True)

    def url(self, name: str) -> str:
        return f"postgresql+psycopg://{_USER}@127.0.0.1:{self.port}/{name}"

    def copy(self, template: str, name: str) -> None:
        # by default the server would write all pages of the template into its log
        self._do(f"CREATE DATABASE {name} TEMPLATE {template} STRATEGY FILE_COPY")

    def drop(self, name: str) -> None:
        self._do(f"DROP DATABASE {name} WITH (FORCE)")

    def _command(self) -> Sequence[str | Path]:
        settings = {
            "listen_addresses": "127.0.0.1",
            "port": self.port,
            "unix_socket_directories": "",
            "max_connections": 300,
            "shared_buffers": "128MB",
            "jit": "off",
            "max_wal_size": "1GB" if self.durable else "256MB",  # limits the WAL, which may be in a tmpfs
        }
        if not self.durable:
            # File-backed shared memory in the data folder is removed with it, even after SIGKILL.
            settings |= {"fsync": "off", "full_page_writes": "off", "dynamic_shared_memory_type": "mmap"}
        chosen = [item for name, value in settings.items() for item in ("-c", f"{name}={value}")]
        return [self._program("postgres"), "-D", self.folder / "data", *chosen]

    @staticmethod
    def _program(name: str) -> Path:
        """Return the path of a server program, the newest installed version."""
        found = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"), key=lambda path: float(path.parts[-3]))
        path = found[-1] if found else shutil.which(name)
        if path is None:
            raise RuntimeError(f"PostgreSQL is not installed: {_INSTALL}")
        return Path(path)


class MariaDB(DatabaseServer):
    backend = "mariadb"

    def __init__(self, *, durable: bool = False) -> None:
        super().__init__(durable=durable)
        #: Template → the statements that copy it into an empty database.
        self._statements: dict[str, Sequence[str]] = {}

    def prepare(self) -> None:
        (self.folder / "data").mkdir()
        if os.geteuid() == 0:
            shutil.chown(self.folder / "data", "nobody")
        names = ("mysql_system_tables", "mysql_performance_tables", "mysql_system_tables_data")
        parts = [Path(f"/usr/share/mysql/{name}.sql").read_bytes() for name in names]
        script = b"\n".join([b"create database mysql;", b"use mysql;", *parts])
        self._run([*self._base(), "--bootstrap"], script)

    def connect(self) -> Any:
        return pymysql.connect(host="127.0.0.1", port=self.port, user=_USER, autocommit=True, ssl_disabled=True)

    def url(self, name: str) -> str:
        # for each connection without ssl_disabled, the driver reads all certificates of the system, in 25 ms
        return f"mariadb+pymysql://{_USER}@127.0.0.1:{self.port}/{name}?ssl_disabled=true"

    def copy(self, template: str, name: str) -> None:
        connection = self.connect()
        try:
            cursor = connection.cursor()
            if template not in self._statements:
                self._statements[template] = list(_copying(cursor, template))
            cursor.execute(f"CREATE DATABASE {name}")
            cursor.execute(f"USE {name}")
            cursor.execute("SET foreign_key_checks = 0")
            for statement in self._statements[template]:
                cursor.execute(statement)
        finally:
            connection.close()

    def _command(self) -> Sequence[str | Path]:
        return [
            *self._base(),
            "--bind-address=127.0.0.1",
            f"--port={self.port}",
            f"--socket={self.folder}/socket",
            f"--pid-file={self.folder}/pid",
            "--skip-grant-tables",
            "--skip-name-resolve",
            "--max-connections=300",
            "--innodb-buffer-pool-size=256M",
            "--performance-schema=OFF",
        ]

    def _base(self) -> list[str]:
        program = shutil.which("mariadbd") or shutil.which("mariadbd", path="/usr/sbin")
        if program is None:
            raise RuntimeError(f"MariaDB is not installed: {_INSTALL}")
        flushed = ["--innodb-flush-log-at-trx-commit=2", "--skip-innodb-doublewrite", "--sync-frm=0"]
        folders = [f"--datadir={self.folder}/data", f"--tmpdir={self.folder}"]
        options = ["--no-defaults", *folders, "--innodb-log-file-size=96M", "--log-warnings=0"]
        return [program, *options, *([] if self.durable else flushed)]


def _copying(cursor: Any, template: str) -> Iterator[str]:
    """Yield the statements that create the tables of a MariaDB database in the current one, with their rows."""
    cursor.execute(f"SHOW TABLES FROM {template}")
    for (table,) in cursor.fetchall():
        cursor.execute(f"SHOW CREATE TABLE {template}.{table}")
        yield cursor.fetchone()[1]
        if cursor.execute(f"SELECT 1 FROM {template}.{table} LIMIT 1"):
            yield f"INSERT INTO {table} SELECT * FROM {template}.{table}"


def _remove_leftovers() -> None:
    """Remove the folders of test processes that were killed; their servers died with them."""
    for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        pid = folder.name.removeprefix(_PREFIX).split("-")[0]
        if not Path(f"/proc/{pid}").exists():
            shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def running(*servers: DatabaseServer) -> Iterator[None]:
    """Start servers in parallel, wait for them, and always stop them at the end."""
    try:
        with ThreadPoolExecutor(len(servers)) as pool:
            list(pool.map(lambda server: server.prepare(), servers))
        for server in servers:
            server.start()
        for server in servers:
            server.wait()
        yield
    finally:
        for server in servers:
            server.stop()


def _as_nobody() -> dict[str, Any]:
    parent = os.getpid()

    def before_exec() -> None:
        most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
        die_with_parent(parent)

    user = {"user": "nobody", "group": "nogroup", "extra_groups": []} if os.geteuid() == 0 else {}
    return {**user, "preexec_fn": before_exec, "process_group": 0}
