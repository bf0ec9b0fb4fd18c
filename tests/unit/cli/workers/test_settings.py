# SPDX-License-Identifier: Apache-2.0
import pytest

from kilonova.cli.workers.settings import require_ports, settings_of
from kilonova.config.address import Address
from kilonova.config.api import ApiSettings
from kilonova.config.database import DatabaseSettings
from kilonova.config.prometheus import PrometheusSettings
from kilonova.config.settings import Settings
from kilonova.config.workers import require_server_database
from kilonova.errors import ConfigurationError


def settings(workers: int, metrics_port: int) -> Settings:
    return Settings(
        database=DatabaseSettings("postgresql://kilonova@db/kilonova"),
        api=ApiSettings(bind=Address("127.0.0.1", 8774), workers=workers),
        prometheus=PrometheusSettings(metrics_port=metrics_port),
    )


def test_each_worker_has_its_own_port_for_metrics() -> None:
    assert [settings_of(number, settings(3, 9100)).prometheus.metrics_port for number in (1, 2, 3)] == [
        9100, 9101, 9102,
    ]  # fmt: skip
    assert settings_of(2, settings(3, 0)).prometheus.metrics_port == 0


@pytest.mark.parametrize(("workers", "port"), [(2, 8773), (3, 8772), (2, 65_535), (2, 8774)])
def test_metrics_ports_that_do_not_fit_are_refused(workers: int, port: int) -> None:
    with pytest.raises(ConfigurationError, match=rf"\[prometheus\] metrics_port = {port}: .* to {port + workers - 1}"):
        require_ports(settings(workers, port))


@pytest.mark.parametrize(("workers", "port"), [(2, 8772), (2, 8775), (2, 65_534), (64, 0), (1, 65_535)])
def test_metrics_ports_that_fit(workers: int, port: int) -> None:
    require_ports(settings(workers, port))


@pytest.mark.parametrize("url", ["sqlite:////var/lib/kilonova.db", "sqlite+pysqlite:///k.db", "sqlite://"])
def test_several_workers_need_a_database_server(url: str) -> None:
    require_server_database(1, url)
    with pytest.raises(ConfigurationError, match=r"osapi_compute_workers = 2 needs PostgreSQL or MariaDB"):
        require_server_database(2, url)


@pytest.mark.parametrize("url", ["postgresql://db/k", "mariadb+pymysql://db/k", "mysql://db/sqlite"])
def test_database_servers_take_any_number(url: str) -> None:
    require_server_database(64, url)
