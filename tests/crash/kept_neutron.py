# SPDX-License-Identifier: Apache-2.0
"""Neutron that outlives the killed control process: its state is a file, and its calls are points of the matrix."""

import os
import pickle
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from crash.points import Moment, Watch
from kilonova.db import workflows
from kilonova.errors import NotFound
from support.fake_neutron import FakeNeutron, Fault

#: Seconds for which ports stay unplugged in a process that is killed in a call of the step that waits for them.
_HELD_BACK_S = 2.0
_KILLS_OF_WAITS = {Moment.BEFORE_CALL.value, Moment.AFTER_CALL.value}


class KeptNeutron(FakeNeutron):
    """Network service of a crash test. A port is plugged some time after it was bound (:meth:`plug_bound`)."""

    def __init__(self, file: Path, watch: Watch) -> None:
        super().__init__(plugs_at_once=False)
        self._file = file
        self._watch = watch
        kill_at = watch.kill_at
        waits = kill_at is not None and kill_at.step == "plugged" and kill_at.moment in _KILLS_OF_WAITS
        self._plugs_from = time.monotonic() + (_HELD_BACK_S if waits else 0.0)
        #: Whether a request to create a port may have been carried out twice, so that no client knows one of the ports.
        self.twice = False
        if file.exists():
            kept = pickle.loads(file.read_bytes())
            self.store.tables, self.ports._macs, self.twice, self.ports.guarantees = kept

    def save(self) -> None:
        """Write the state to the file."""
        with self._lock:
            draft = self._file.with_suffix(".new")
            draft.write_bytes(pickle.dumps((self.store.tables, self.ports._macs, self.twice, self.ports.guarantees)))
            os.replace(draft, self._file)  # noqa: PTH105 - atomic

    def plug_bound(self) -> None:
        """Plug the ports that are bound to a host.

        The step that waits for plugged ports calls the network service only if it has not received the events. So a
        process that is to be killed in this call must find the ports unplugged.
        """
        if time.monotonic() < self._plugs_from:
            return
        with self._lock:
            ports = list(self.store["ports"].values())
            down = [port["id"] for port in ports if port["status"] == "DOWN" and port["binding:vif_type"] == "ovs"]
        for port in down:
            with suppress(NotFound):  # a workflow has deleted the port meanwhile
                self.plug(port)
        if down:
            self.save()

    # --- implements NetworkClient -------------------------------------------------------------------------------------

    def list(self, kind: str, *, token: str | None = None, **filters: object) -> Sequence[Any]:
        with self._call_of(filters.get("device_id")):
            return super().list(kind, token=token, **filters)

    def create(self, kind: str, values: Mapping[str, Any], *, token: str | None = None) -> Any:
        with self._call_of(values.get("device_id")):
            return super().create(kind, values, token=token)

    def update(self, kind: str, resource_id: str, values: Mapping[str, Any], **options: Any) -> Any:
        with self._call_of(values.get("device_id") or self._device(resource_id)):
            return super().update(kind, resource_id, values, **options)

    def delete(self, kind: str, resource_id: str, *, token: str | None = None) -> None:
        with self._call_of(self._device(resource_id)):
            super().delete(kind, resource_id, token=token)

    def call(self, method: str, path: str, body: Any = None, *, token: str | None = None) -> Any:
        with self._call_of(self._device(path.split("/")[2])):
            return super().call(method, path, body, token=token)

    def _device(self, port_id: str) -> str | None:
        port = self.store["ports"].get(port_id)
        return None if port is None else port["device_id"]

    @contextmanager
    def _call_of(self, server: object) -> Iterator[None]:
        """Report a call about a server's ports as a point of the workflow that makes it."""
        whose = self._whose(str(server)) if server else None
        if whose is None:
            yield
            return
        kind, step, undoing = whose
        fault = self._watch.take_fault(kind, step, undoing=undoing)
        if fault is not None:
            self.twice |= fault is Fault.TWICE
            self.save()
            self.faults.plan("", fault)
        self._watch(kind, step, undoing, Moment.BEFORE_CALL)
        try:
            yield
        finally:
            self.save()
            self._watch(kind, step, undoing, Moment.AFTER_CALL)

    def _whose(self, server: str) -> tuple[str, str, bool] | None:
        database = self._watch.database
        assert database is not None
        with database.read() as connection:
            rows = [row for row in workflows.of_instance(connection, server) if not row.waiting]
        return (rows[0].kind, rows[0].step, rows[0].undoing) if rows else None
