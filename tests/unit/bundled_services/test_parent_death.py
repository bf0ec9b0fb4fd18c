# SPDX-License-Identifier: Apache-2.0
import os
import select
import signal
import subprocess
import sys

PARENT = """
import os, subprocess, sys, time
from kilonova.bundled_services.parent_death import die_with_parent
me = os.getpid()
child = subprocess.Popen(["sleep", "1000"], preexec_fn=lambda: die_with_parent(me))
print(child.pid, flush=True)
time.sleep(1000)
"""

SPAWNED = """
import multiprocessing, os, time

def work(queue):
    from kilonova.bundled_services.parent_death import die_with_parent
    die_with_parent()
    queue.put(os.getpid())
    time.sleep(1000)

if __name__ == "__main__":
    context = multiprocessing.get_context("fork")
    queue = context.SimpleQueue()
    context.Process(target=work, args=(queue,)).start()
    print(queue.get(), flush=True)
    time.sleep(1000)
"""


def _child_dies_with(program: str) -> bool:
    parent = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    child = os.pidfd_open(int(parent.stdout.readline()))
    try:
        parent.send_signal(signal.SIGKILL)
        parent.wait()
        poll = select.poll()
        poll.register(child, select.POLLIN)
        return bool(poll.poll(5000))
    finally:
        os.close(child)
        parent.stdout.close()


def test_a_child_dies_when_its_parent_is_killed() -> None:
    assert _child_dies_with(PARENT)


def test_a_multiprocessing_child_knows_its_parent_itself() -> None:
    assert _child_dies_with(SPAWNED)


def test_a_child_whose_parent_is_gone_already_ends_at_once() -> None:
    program = "import sys; from kilonova.bundled_services.parent_death import die_with_parent; die_with_parent(1234567)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 1
