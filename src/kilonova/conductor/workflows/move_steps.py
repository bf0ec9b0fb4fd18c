# SPDX-License-Identifier: Apache-2.0
"""Steps that several kinds of moves have."""

from kilonova.conductor.services import Services
from kilonova.conductor.workflow import Completed, Effect, Gone, Run, SendToAgent
from kilonova.conductor.workflows.moves import MoveFacts, guest_at_home
from kilonova.db import moves, server_migrations
from kilonova.db.transaction import Transaction
from kilonova.messaging.messages import AbandonMove, ReturnHome


def abandon(_services: Services, run: Run[MoveFacts]) -> Effect:
    """Have the destination throw away what it has of the server."""
    return SendToAgent(run.facts.host, AbandonMove(run.step_id, run.instance_uuid))


def return_home(services: Services, run: Run[MoveFacts]) -> Effect:
    """Have the source keep the guest, on if it was on."""
    guest = guest_at_home(services, run)
    if guest is None:
        return Gone()
    return SendToAgent(run.facts.source, ReturnHome(run.step_id, guest, run.facts.runs))


def switch(_services: Services, run: Run[MoveFacts]) -> Effect:
    """Let the server be on the destination from now on."""

    def write(tx: Transaction) -> None:
        moves.switch(tx, server_migrations.get(tx.connection, run.facts.migration))

    return Completed(write=write)
