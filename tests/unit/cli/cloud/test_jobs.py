# SPDX-License-Identifier: Apache-2.0
import pytest

from kilonova.cli.cloud.jobs import JobFailed, run_job
from kilonova.errors import NotFound


class Cloud:
    """A cloud with one job, which passes through ``states``."""

    def __init__(self, *states: str) -> None:
        self.states = list(states)
        self.calls: list[tuple[str, str]] = []

    def get(self, service: str, path: str, version: str | None = None, **query: str) -> dict[str, object]:
        del service, version, query
        self.calls.append(("GET", path))
        state = self.states.pop(0)
        if state == "ctrl-c":
            raise KeyboardInterrupt
        failure = "no memory" if state == "failed" else None
        return {"job": {"id": "j", "state": state, "progress": 0.5, "message": "m", "failure": failure, "result": [1]}}

    def call(self, method: str, service: str, path: str, version: str | None = None, **arguments: object) -> object:
        del service, version
        self.calls.append((method, path))
        if method == "DELETE":
            raise NotFound("gone")
        assert arguments == {"json": {"kind": "capacity", "parameters": {"a": 1}}}
        return {"job": {"id": "j"}}


def test_the_result_of_a_job_is_waited_for() -> None:
    pauses: list[float] = []
    assert run_job(Cloud("queued", "running", "done"), "capacity", {"a": 1}, pause=pauses.append) == [1]
    assert len(pauses) == 2


@pytest.mark.parametrize(("state", "reason"), [("failed", "no memory"), ("cancelled", "by request")])
def test_a_job_without_a_result_is_an_error(state: str, reason: str) -> None:
    with pytest.raises(JobFailed, match=reason):
        run_job(Cloud(state), "capacity", {"a": 1})


def test_ctrl_c_cancels_the_job() -> None:
    cloud = Cloud("running", "ctrl-c")
    with pytest.raises(KeyboardInterrupt):
        run_job(cloud, "capacity", {"a": 1}, pause=lambda _: None)
    assert cloud.calls[-1] == ("DELETE", "/jobs/j")
