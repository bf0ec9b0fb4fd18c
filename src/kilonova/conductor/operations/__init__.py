# SPDX-License-Identifier: Apache-2.0
"""Operations on existing servers, one module per family of actions."""

from kilonova.conductor.hosts.agent_questions import AgentQuestions
from kilonova.conductor.operations.builds import Builds
from kilonova.conductor.operations.consoles import Consoles
from kilonova.conductor.operations.deletes import Deletes
from kilonova.conductor.operations.evacuations import Evacuations
from kilonova.conductor.operations.external_events import ExternalEvents
from kilonova.conductor.operations.guest_metadata import MetadataOfServers
from kilonova.conductor.operations.host_images import HostImages
from kilonova.conductor.operations.image_caching import ImageCaching
from kilonova.conductor.operations.interfaces import Interfaces
from kilonova.conductor.operations.live_migrations import LiveMigrations
from kilonova.conductor.operations.locks import Locks
from kilonova.conductor.operations.moves import Moves
from kilonova.conductor.operations.network_caches import NetworkCaches
from kilonova.conductor.operations.outcomes import Outcomes
from kilonova.conductor.operations.planned_moves import PlannedMoves
from kilonova.conductor.operations.power import Power
from kilonova.conductor.operations.rebuilds import Rebuilds
from kilonova.conductor.operations.requests import Requests
from kilonova.conductor.operations.rescues import Rescues
from kilonova.conductor.operations.shelving import Shelving
from kilonova.conductor.operations.snapshots import Snapshots
from kilonova.conductor.operations.starting import Starter
from kilonova.conductor.operations.states import States
from kilonova.conductor.operations.stray_ports import StrayPorts
from kilonova.conductor.workflow_engine.runner import Runner
from kilonova.conductor.workflow_engine.services import Services

__all__ = ["Operations"]


class Operations:
    """The families of operations. Most operations only store and start a workflow, and do not wait for its end.

    ``outcomes``: results of workflows, for the operations that wait for a result.
    """

    def __init__(self, services: Services, runner: Runner, questions: AgentQuestions, outcomes: Outcomes) -> None:
        starter = Starter(services, runner)
        self.builds = Builds(starter)
        self.deletes = Deletes(starter)
        self.power = Power(starter)
        self.locks = Locks(starter)
        self.consoles = Consoles(questions, services.database)
        self.rescues = Rescues(starter)
        self.states = States(starter)
        self.requests = Requests(starter)
        self.moves = Moves(starter)
        self.planned_moves = PlannedMoves(starter, self.moves)
        self.live_migrations = LiveMigrations(starter)
        self.image_caching = ImageCaching(starter)
        self.host_images = HostImages(questions)
        self.snapshots = Snapshots(starter)
        self.shelving = Shelving(starter)
        self.rebuilds = Rebuilds(starter)
        self.evacuations = Evacuations(starter)
        self.interfaces = Interfaces(starter, outcomes)
        self.guest_metadata = MetadataOfServers(services)
        self.network_caches = NetworkCaches(starter, self.interfaces.lose)
        self.external_events = ExternalEvents(starter, self.interfaces, self.network_caches)
        self.stray_ports = StrayPorts(services)
