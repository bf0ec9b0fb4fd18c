# SPDX-License-Identifier: Apache-2.0
"""`[quota] driver`: a class from outside has the limits, or the start says why not."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from kilonova.cli.wiring.quota_drivers import limit_source
from kilonova.config.load import load_settings
from kilonova.errors import ConfigurationError, Unavailable
from kilonova.identity.limits import LimitSource, StoredLimits, Unlimited
from kilonova.model.quota import NO_LIMITS

DRIVER = """
from dataclasses import dataclass

@dataclass
class Nested:
    cores: int = 100
    is_read_only = True
    def of_project(self, project_id): return {"cores": self.cores // 2}
    def defaults(self): return {"cores": self.cores}

class Half:
    def defaults(self): return None
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "own_quotas.py").write_text(DRIVER)
    yield tmp_path
    sys.modules.pop("own_quotas", None)


def source(folder: Path, name: str, more: str = "") -> LimitSource:
    file = folder / "kilonova.conf"
    file.write_text(f"[database]\nconnection = sqlite://\n[quota]\ndriver = {name}\n{more}")
    return limit_source(load_settings([str(file)]))


def test_a_class_from_outside_has_the_limits(folder: Path) -> None:
    limits = source(folder, "own_quotas.Nested", "[Nested]\ncores = 30\n")
    assert limits.is_read_only
    assert limits.defaults() == {**NO_LIMITS, "cores": 30}
    assert limits.of_project("p") == {**NO_LIMITS, "cores": 15}


@pytest.mark.parametrize("said", ["1 / 0", "'nonsense'", "{'cores': 'many'}"])
def test_one_that_fails_refuses_the_request_that_asked(folder: Path, said: str) -> None:
    (folder / "own_quotas.py").write_text(DRIVER.replace('{"cores": self.cores // 2}', said))
    with pytest.raises(Unavailable, match="are not available at present"):
        source(folder, "own_quotas.Nested").of_project("p")


@pytest.mark.parametrize(
    ("name", "kind"), [("nova.quota.DbQuotaDriver", StoredLimits), ("nova.quota.NoopQuotaDriver", Unlimited)]
)
def test_the_names_of_nova(folder: Path, name: str, kind: type[LimitSource]) -> None:
    assert type(source(folder, name)) is kind


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("nova.quota.Nonsense", "[quota] driver takes nova.quota.DbQuotaDriver, "),
        ("own_quotas.Half", "'own_quotas.Half' has no of_project"),
        ("Nested", "'Nested' cannot be loaded (the name has no module path)"),
    ],
)
def test_what_cannot_be_used_is_said(folder: Path, name: str, said: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        source(folder, name)
    assert said in refused.value.message
