# SPDX-License-Identifier: Apache-2.0
"""Arguments and result of API handlers, independent of WSGI and falcon.

A handler is a function ``(Context, Request) -> Reply``. An :class:`Endpoint` combines it with a range of microversions
and with schemas.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import field
from datetime import datetime
from typing import Any, TypeVar

from sqlalchemy.engine import Connection

from kilonova.api.backend import Backend
from kilonova.api.microversion import Version
from kilonova.api.policy import Credentials
from kilonova.api.validation import Schemas, invalid_parameter
from kilonova.db.core.transaction import BatchedWrite, Item, Outcome, Transaction
from kilonova.db.database import Database
from kilonova.deadline import NEVER, Deadline
from kilonova.errors import Forbidden
from kilonova.model.requester import Requester
from kilonova.notifications.events import ResourceEvent
from kilonova.records import dataclass

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Request:
    """One request, decoded.

    ``path``: path parameters. ``query``: query parameter → all its values, in the order of the request.
    ``query_string``: the query before parsing. ``body``: decoded JSON, None if the body is empty.
    ``root_url``: scheme, host and path prefix of the API, without a slash at the end.
    """

    method: str
    url: str
    root_url: str
    path: Mapping[str, str]
    query: Mapping[str, Sequence[str]]
    headers: Mapping[str, str]
    version: Version
    body: Any = None
    query_string: str = ""

    def param(self, name: str) -> str | None:
        """Return the last value of a query parameter, or None."""
        values = self.query.get(name)
        return values[-1] if values else None


@dataclass(frozen=True, slots=True)
class Reply:
    """One reply. ``body``: JSON-ready data, encoded bytes, or None for an empty reply."""

    status: int = 200
    body: Any = None
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class Context:
    """Credentials, request id and deadline of a request, and the services that handlers may use.

    Database reads stop at the deadline automatically; long loops in handlers must call ``deadline.check()``.
    ``is_authorized``: True after a policy check has passed, or after the handler has declared that it needs none. While
    it is False, no reply of the handler is sent.
    ``hand_over``: takes a stream of events that follows the reply (``wsgi_keys.HAND_OVER``); None if the server has no
    such streams. ``token_expires_at``: end of the validity of the caller's token, UTC; None if it has none.
    ``reads_from``: the replica that :meth:`read` uses; None for the database itself.
    """

    backend: Backend
    credentials: Credentials
    request_id: str
    remote_address: str | None = None
    deadline: Deadline = NEVER
    is_authorized: bool = False
    reads_from: Database | None = None
    hand_over: Callable[[Any], None] | None = None
    token_expires_at: datetime | None = None
    _answers: dict[tuple[str, str | None, str | None], bool] = field(default_factory=dict, repr=False)

    @property
    def user_id(self) -> str:
        return self.credentials.user_id

    @property
    def project_id(self) -> str:
        return self.credentials.project_id

    @property
    def requester(self) -> Requester:
        """Request id, user and project of the caller, to be recorded with operations that the request starts."""
        return Requester(self.request_id, self.user_id, self.project_id)

    def may(self, rule: str, *, project_id: str | None = None, user_id: str | None = None) -> bool:
        """Whether policy allows ``rule`` on a resource of project ``project_id`` and user ``user_id``.

        None stands for the caller's project or user. Results are cached, so that a reload of the policy files does not
        change them within a request.
        """
        asked = rule, project_id, user_id
        answer = self._answers.get(asked)
        if answer is None:
            target = {
                "project_id": self.project_id if project_id is None else project_id,
                "user_id": self.user_id if user_id is None else user_id,
            }
            answer = self._answers[asked] = self.backend.policy.allows(rule, target, self.credentials)
        return answer

    def authorize(self, rule: str, *, project_id: str | None = None, user_id: str | None = None) -> None:
        """Raise Forbidden unless policy allows ``rule`` (see :meth:`may`)."""
        if not self.may(rule, project_id=project_id, user_id=user_id):
            raise Forbidden(f"Policy doesn't allow {rule} to be performed.", rule=rule)
        self.is_authorized = True

    def read(self) -> AbstractContextManager[Connection]:
        """Open a read transaction: one snapshot of the database, readable until the request's deadline.

        Raises: Unavailable, DeadlineExceeded, ClientGone.
        """
        return (self.reads_from or self.backend.database).read()

    def write(self, job: Callable[[Transaction], Result]) -> Result:
        """Run ``job`` in one transaction; return its result once the commit is durable. Raises: Unavailable."""
        return self.backend.database.write(job)

    def write_batched(self, run: BatchedWrite[Item, Outcome], item: Item) -> Outcome:
        """Call ``run`` in a transaction that is shared with concurrent requests.

        ``run`` gets ``item`` and the items of these requests. Return the outcome for ``item``, or raise the outcome if
        it is an exception.
        """
        return self.backend.database.write_batched(run, item)

    def now(self) -> datetime:
        """Return the time of the database's clock, UTC."""
        return self.backend.database.clock.now()

    def announce(self, *resource_events: ResourceEvent) -> None:
        """Publish notifications about changes that this request made. Call it after the commit of the changes."""
        for resource_event in resource_events:
            self.backend.announcer.tell(resource_event, self.requester)

    def authorize_anyone(self) -> None:
        """Declare that the handler needs no policy rule: every project-scoped token is allowed."""
        self.is_authorized = True

    def sees(self, rule: str, project_id: str) -> bool:
        """Whether the caller may see resources of project ``project_id``; if not, the reply is 404 instead of 403."""
        return project_id == self.project_id or self.may(rule, project_id=project_id)


Handler = Callable[[Context, Request], Reply]


def by_method(body: Any) -> bool:
    """Default of ``Endpoint.reads``: every POST, PUT or DELETE request counts as a write."""
    del body
    return False


def changes_nothing(body: Any) -> bool:
    """Value of ``Endpoint.reads`` for POST routes that change nothing."""
    del body
    return True


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A handler with its microversion range and the schemas of its body and query.

    Before ``since`` and after ``until`` the reply is 404. ``reads``: function that tells, for a body of a POST, PUT or
    DELETE request, whether the request only reads. If so, it is allowed while the API is read-only, and has a deadline,
    as GET requests have. ``ends_read_only``: the request writes, and is allowed while the API is read-only.
    """

    handler: Handler
    body: Schemas | None = None
    query: Schemas | None = None
    since: Version | None = None
    until: Version | None = None
    reads: Callable[[Any], bool] = by_method
    ends_read_only: bool = False

    def exists_at(self, version: Version) -> bool:
        return (self.since is None or version >= self.since) and (self.until is None or version <= self.until)


#: Path template → method → endpoint.
Routes = Mapping[str, Mapping[str, Endpoint]]


def integer_param(request: Request, name: str) -> int | None:
    """Return the query parameter ``name`` as an integer of at least 0, None if it is absent. Raises: InvalidRequest."""
    text = request.param(name)
    if text is None:
        return None
    try:
        value = int(text)
    except ValueError:
        value = -1
    if value < 0:
        raise invalid_parameter(name, text, "An integer of at least 0 is expected.")
    return value
