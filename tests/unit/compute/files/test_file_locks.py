# SPDX-License-Identifier: Apache-2.0
import subprocess
import sys
import threading
from pathlib import Path

from kilonova.compute.files.file_locks import held, is_lock

_HOLDER = """
import sys, time
from pathlib import Path
from kilonova.compute.files.file_locks import held
with held(Path(sys.argv[1]), "a"):
    print("held", flush=True)
    time.sleep(60)
"""


def test_one_after_the_other_and_nothing_is_left(tmp_path: Path) -> None:
    inside, most, lock = 0, 0, threading.Lock()

    def work() -> None:
        nonlocal inside, most
        for _ in range(50):
            with held(tmp_path, "a"):
                with lock:
                    inside += 1
                    most = max(most, inside)
                with lock:
                    inside -= 1

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert (most, inside) == (1, 0)
    assert list(tmp_path.iterdir()) == []


def test_who_does_not_wait_is_told(tmp_path: Path) -> None:
    with held(tmp_path, "a") as first, held(tmp_path, "b") as other, held(tmp_path, "a", wait=False) as second:
        assert (first, other, second) == (True, True, False)
        assert all(is_lock(file.name) for file in tmp_path.iterdir())
    with held(tmp_path, "a", wait=False) as again:
        assert again


def test_the_lock_of_a_process_ends_with_it(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", _HOLDER, tmp_path], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        with held(tmp_path, "a", wait=False) as ours:
            assert not ours
        process.kill()
        with held(tmp_path, "a") as ours:
            assert ours
