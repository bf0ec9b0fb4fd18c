# SPDX-License-Identifier: Apache-2.0
"""The part of a control process that applies plans of moves."""

from kilonova.api.read_only import ReadOnlySwitch
from kilonova.claims.rest_of_plan import PresentPlans
from kilonova.cli.wiring.core import Core
from kilonova.conductor.plans.plan_runner import PlanRunner
from kilonova.conductor.plans.rebalance_jobs import RebalanceJobs
from kilonova.config.settings import Settings
from kilonova.scheduler.devices.pci_request import read_aliases


def plan_runner(settings: Settings, core: Core) -> PlanRunner:
    """Return the part, without starting it."""
    database, conductor, limits = core.database, core.conductor, settings.operator
    aliases = read_aliases(settings.scheduler.pci_alias)
    switch = ReadOnlySwitch(database, configured=settings.api.read_only)
    return PlanRunner(
        database,
        conductor.owner,
        conductor.operations.planned_moves,
        PresentPlans(database, core.mirror, core.rules.engine, aliases),
        lambda: conductor.runner.may_act,
        jobs=RebalanceJobs(database, conductor.owner, limits.max_jobs, limits.max_jobs_per_project),
        ended=lambda state: core.metrics.plan_move_ended(state.value),
        may_begin=lambda: switch.reason() is None,
    )
