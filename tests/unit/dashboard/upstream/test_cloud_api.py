# SPDX-License-Identifier: Apache-2.0
import httpx
import pytest

from kilonova.dashboard.upstream.cloud_api import Cloud, Credentials, Login, Refused
from kilonova.errors import Unavailable
from support.dashboards import KEYSTONE, PASSWORD, FakeCloud, run


async def signed_in(cloud: FakeCloud, url: str = KEYSTONE, region: str | None = None) -> tuple[Cloud, Login]:
    api = Cloud(httpx.AsyncClient(transport=httpx.MockTransport(cloud)), url, region)
    return api, await api.sign_in(Credentials("root", PASSWORD, "Default", "wonder"))


@pytest.mark.parametrize("url", [KEYSTONE, f"{KEYSTONE}/", f"{KEYSTONE}/v3", f"{KEYSTONE}/v3/"])
def test_keystone_is_found_with_and_without_its_version(cloud: FakeCloud, url: str) -> None:
    _, login = run(signed_in(cloud, url))
    assert (login.user_name, login.roles) == ("root", ("admin",))
    assert login.project is not None
    assert login.endpoints["compute"] == "http://compute.test/v2.1"


def test_a_service_of_another_region_is_not_used(cloud: FakeCloud) -> None:
    async def ask() -> None:
        api, login = await signed_in(cloud, region="RegionTwo")
        await api.call(login, "GET", "compute", "/servers")

    with pytest.raises(Unavailable, match="no service of type compute"):
        run(ask())


@pytest.mark.parametrize(
    ("answer", "kind", "message"),
    [
        ((409, {"conflictingRequest": {"message": "Locked."}}), Refused, "Locked."),
        ((400, ["x"]), Refused, '["x"]'),
        ((500, {"computeFault": {"message": "Broken."}}), Unavailable, "Broken."),
    ],
)
def test_faults_have_the_message_of_the_service(
    cloud: FakeCloud, answer: object, kind: type[Exception], message: str
) -> None:
    async def ask() -> None:
        api, login = await signed_in(cloud)
        cloud.answers["GET", "/v2.1/servers"] = answer
        await api.call(login, "GET", "compute", "/servers")

    with pytest.raises(kind) as caught:
        run(ask())
    assert str(caught.value) == message
