# SPDX-License-Identifier: Apache-2.0
"""Relay of bytes between the two ends of a console, until one end closes or the idle timeout passes."""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from websockets.exceptions import ConnectionClosed

from kilonova.console_proxy.endpoints import ClientEndpoint, HostEndpoint, StalledError

#: Reason for the end of a console: WebSocket close code, and a text for the user.
Ended = tuple[int, str]
_OVER, _NOT_ALLOWED, _FAILED = 1000, 1008, 1011
USER_LEFT: Ended = (_OVER, "")
CONSOLE_ENDED: Ended = (_OVER, "The console has ended.")
IDLE: Ended = (_NOT_ALLOWED, "The console was idle for too long.")
WRONG_KIND: Ended = (_NOT_ALLOWED, "The token is for another type of console.")
STALLED: Ended = (_FAILED, "One end of the connection accepts no more data.")


async def relay(
    client: ClientEndpoint,
    host: HostEndpoint,
    idle_s: float | None,
    until: Sequence[asyncio.Task[Ended]],
    is_wrong: Callable[[bytes], bool],
) -> Ended:
    """Relay bytes in both directions, and return the reason for the end.

    ``idle_s``: idle timeout in seconds, or None. ``until``: tasks; the console is also closed when one of them ends.
    ``is_wrong``: returns whether the first bytes from the hypervisor belong to another type of console.
    """
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(idle_s) as idle:

            def said() -> None:
                if idle_s is not None:
                    idle.reschedule(loop.time() + idle_s)

            async def to_client() -> Ended:
                data = await host.read()
                if is_wrong(data):
                    return WRONG_KIND
                while data:
                    said()
                    await client.write(data)
                    data = await host.read()
                return CONSOLE_ENDED

            async def to_host() -> Ended:
                while True:
                    data = await client.read()
                    said()
                    await host.write(data)

            return await _first(to_client(), to_host(), until)
    except TimeoutError:  # the idle timeout, or ETIMEDOUT of the connection to the host
        return IDLE if idle.expired() else CONSOLE_ENDED
    except ConnectionClosed:
        return USER_LEFT
    except StalledError:
        return STALLED
    except OSError:
        return CONSOLE_ENDED


async def _first(
    one: Coroutine[Any, Any, Ended], other: Coroutine[Any, Any, Ended], until: Sequence[asyncio.Task[Ended]]
) -> Ended:
    """Run two coroutines until one of them or a task of ``until`` ends, and return its result."""
    both = {asyncio.create_task(one), asyncio.create_task(other)}
    try:
        done, _ = await asyncio.wait({*both, *until}, return_when=asyncio.FIRST_COMPLETED)
        return done.pop().result()
    finally:
        for task in both:
            task.cancel()
        await asyncio.gather(*both, return_exceptions=True)
