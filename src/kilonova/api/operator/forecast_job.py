# SPDX-License-Identifier: Apache-2.0
"""Jobs of the kind ``forecast``: a scenario of months or years that begins with the present cloud. Nothing changes."""

import time
from collections.abc import Callable, Iterable
from typing import Any

from kilonova.api.http import Context
from kilonova.api.operator.bodies.forecast import AskedForecast
from kilonova.api.operator.described_requests import flavor_of, image_of
from kilonova.api.operator.job_kind import JobKind
from kilonova.api.operator.schemas.forecast import FORECAST
from kilonova.api.policy import ADMIN, rule
from kilonova.api.typed_body import read_typed
from kilonova.api.validation import invalid_field
from kilonova.claims.cloud_snapshot import loaded_cloud
from kilonova.conductor.jobs.job_context import JobContext
from kilonova.db import request_specs
from kilonova.errors import InvalidRequest
from kilonova.model.flavor import Flavor
from kilonova.model.image import Image
from kilonova.model.request_spec import RequestSpec
from kilonova.planning.forecast.draws import Purpose, generator
from kilonova.planning.forecast.forecast import forecast
from kilonova.planning.forecast.present import beginning_of
from kilonova.planning.forecast.run import Policy
from kilonova.planning.forecast.scenario import Scenario, ScenarioError, scenario_of
from kilonova.planning.forecast.server_kinds import Catalog, Kinds

RULES = (rule("kilonova:forecast", ADMIN, "Forecast a scenario on the present cloud", ("POST", "/operator/v1/jobs")),)
_MOST_INTERVALS = 1_000
_LOADED = 0.05
_ANY_FLAVOR = Flavor("", "", 1, 1, 0)


def prepare(ctx: Context, parameters: Any) -> Any:
    """Return the parameters with flavors, images and settings. Errors: 400 naming the field."""
    asked = read_typed(AskedForecast, parameters)
    names = [asked.name, *(each.name for each in asked.policies)]
    if len(names) != len(set(names)):
        raise invalid_field("policies", "Two policies have the same name.")
    scenario = scenario_of(dict(asked.scenario))
    for field in ("cloud", "traces"):
        if getattr(scenario, field):
            raise ScenarioError(field, "a forecast of the present cloud cannot have it")
    if scenario.length_s / scenario.interval_s > _MOST_INTERVALS:
        raise ScenarioError("interval", f"there may be at most {_MOST_INTERVALS} intervals")
    settings = ctx.backend.settings
    flavors = {name: flavor_of(ctx, name, field=place) for name, place in _flavors(scenario)}
    images = {name: image_of(ctx, name, ctx.project_id) for each in scenario.arrivals for name in each.images}
    return {
        "asked": parameters,
        "flavors": {name: _stored(flavor) for name, flavor in flavors.items()},
        "images": {name: _stored(_ANY_FLAVOR, image) for name, image in images.items()},
        "resize_in_place": settings.compute.allow_resize_to_same_host,
        "down_time_s": settings.scheduler.service_down_time,
        "default_zone": settings.compute.default_schedule_zone,
    }


def _flavors(scenario: Scenario) -> Iterable[tuple[str, str]]:
    """Yield the name of each flavor, with the field that names it."""
    for number, each in enumerate(scenario.arrivals):
        yield from ((name, f"arrivals[{number}].flavors") for name in each.flavors)
        if each.resizes is not None:
            yield from ((name, f"arrivals[{number}].resizes.flavors") for name in each.resizes.flavors)


def _stored(flavor: Flavor, image: Image | None = None) -> Any:
    return request_specs.as_json(RequestSpec(flavor=flavor, image=image), None)


def run(context: JobContext, prepared: Any) -> Any:
    """Forecast the scenario on one snapshot."""
    context.progress(0.0, "loading the cloud")
    asked = read_typed(AskedForecast, prepared["asked"])
    scenario = scenario_of(dict(asked.scenario))
    taken = loaded_cloud(context.cloud)
    images = {name: _spec(each).image for name, each in prepared["images"].items()}
    catalog = Catalog(
        flavors={name: _spec(each).flavor for name, each in prepared["flavors"].items()},
        images={name: image for name, image in images.items() if image is not None},
        default_zone=prepared["default_zone"],
        aliases=context.cloud.aliases,
    )
    chance = generator(scenario.seed, Purpose.PRESENT_LIFETIMES)
    beginning = beginning_of(taken.cloud, Kinds(catalog), scenario.present, prepared["down_time_s"], chance)
    found = forecast(
        scenario,
        beginning,
        _policies(context, asked, in_place=prepared["resize_in_place"]),
        clock_ns=time.thread_time_ns,
        progress=_after_loading(context),
    )
    return {"seq": taken.seq, **found.report()}


def _spec(stored: Any) -> RequestSpec:
    spec, _ = request_specs.from_json(stored)
    return spec


def _policies(context: JobContext, asked: AskedForecast, *, in_place: bool) -> list[Policy]:
    found = [Policy(name=asked.name, engine=context.cloud.engine, resize_in_place=in_place)]
    for number, each in enumerate(asked.policies):
        try:
            engine = context.cloud.rebuild_rules(each.rules).engine
        except InvalidRequest as error:
            raise InvalidRequest(f"policies[{number}]: {error.message}") from None
        found.append(Policy(name=each.name, engine=engine, resize_in_place=in_place))
    return found


def _after_loading(context: JobContext) -> Callable[[float, str], None]:
    return lambda done, text: context.progress(_LOADED + (1 - _LOADED) * done, text)


KIND = JobKind(
    name="forecast",
    title="Forecast months or years of servers on the present cloud, under several policies",
    parameters=FORECAST,
    prepare=prepare,
    run=run,
    rule="kilonova:forecast",
)
