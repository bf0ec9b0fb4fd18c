# SPDX-License-Identifier: Apache-2.0
import importlib.resources
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from kilonova.bundled_services import deferred_modules

_FILES = {
    "seldom_used/__init__.py": "from seldom_used import words\nGREETING = words.HELLO\n",
    "seldom_used/words.py": "import time\ntime.sleep(0.05)\nHELLO = 'hello'\nshout = HELLO.upper\n",
    "seldom_used/deep/__init__.py": "",
    "seldom_used/deep/leaf.py": "from seldom_used.words import shout\nLOUD = shout()\n",
    "seldom_used/text.txt": "a text",
    "seldom_used/broken.py": "raise RuntimeError('broken')\n",
}


@pytest.fixture
def packages(tmp_path: Path) -> Iterator[Path]:
    for name, text in _FILES.items():
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    finders, modules = list(sys.meta_path), set(sys.modules)
    sys.path.insert(0, str(tmp_path))
    deferred_modules.defer(("seldom_used",))
    yield tmp_path
    sys.path.remove(str(tmp_path))
    sys.meta_path[:] = finders
    for name in set(sys.modules) - modules:
        del sys.modules[name]


def _loaded(module: ModuleType, name: str) -> bool:
    return name in vars(module)


@pytest.mark.usefixtures("packages")
def test_an_import_loads_nothing_and_the_first_use_loads() -> None:
    import seldom_used  # type: ignore[import-not-found,unused-ignore]
    from seldom_used import words  # type: ignore[import-not-found,unused-ignore]
    from seldom_used.deep import leaf  # type: ignore[import-not-found,unused-ignore]

    assert not any((_loaded(seldom_used, "GREETING"), _loaded(words, "HELLO"), _loaded(leaf, "LOUD")))
    assert leaf.LOUD == "HELLO"
    assert _loaded(words, "HELLO")
    assert not _loaded(seldom_used, "GREETING")
    assert seldom_used.GREETING == "hello"


@pytest.mark.usefixtures("packages")
def test_the_data_files_of_a_package_can_be_read() -> None:
    import seldom_used  # type: ignore[import-not-found,unused-ignore]

    for _ in range(2):
        assert importlib.resources.files("seldom_used").joinpath("text.txt").read_text() == "a text"
        assert seldom_used.GREETING == "hello"


@pytest.mark.usefixtures("packages")
def test_names_that_do_not_exist_are_reported_as_usual() -> None:
    from seldom_used import words  # type: ignore[import-not-found,unused-ignore]

    with pytest.raises(AttributeError, match=r"'seldom_used\.words' has no attribute 'bye'"):
        _ = words.bye
    with pytest.raises(ModuleNotFoundError):
        import seldom_used.nothing  # noqa: F401  # type: ignore[import-not-found,unused-ignore]


@pytest.mark.usefixtures("packages")
def test_a_failed_load_fails_again_with_its_own_error() -> None:
    from seldom_used import broken  # type: ignore[import-not-found,unused-ignore]

    for _ in range(2):
        with pytest.raises(RuntimeError, match="broken"):
            _ = broken.anything


@pytest.mark.usefixtures("packages")
def test_threads_that_use_a_module_at_the_same_time_wait_for_its_load() -> None:
    from seldom_used import words  # type: ignore[import-not-found,unused-ignore]

    found: list[str] = []
    threads = [threading.Thread(target=lambda: found.append(words.shout())) for _ in range(8)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert found == ["HELLO"] * 8


def test_an_unavailable_package_cannot_be_imported(packages: Path) -> None:
    (packages / "unwanted.py").write_text("")
    deferred_modules.make_unavailable("unwanted")
    with pytest.raises(ModuleNotFoundError):
        import unwanted  # noqa: F401  # type: ignore[import-not-found,unused-ignore]
