# SPDX-License-Identifier: Apache-2.0
"""Take bytes from each side of a console to the other one until a side ends, or neither says anything for long."""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from websockets.exceptions import ConnectionClosed

from kilonova.console_proxy.endpoints import ClientEndpoint, HostEndpoint, StalledError

#: Why it ends: close codes of WebSocket, and what a user may be told.
Ended = tuple[int, str]
_OVER, _NOT_ALLOWED, _FAILED = 1000, 1008, 1011
USER_LEFT: Ended = (_OVER, "")
CONSOLE_ENDED: Ended = (_OVER, "The console has ended.")
IDLE: Ended = (_NOT_ALLOWED, "Nobody has used the console for long.")
WRONG_KIND: Ended = (_NOT_ALLOWED, "The token is one of another kind of consoles.")
STALLED: Ended = (_FAILED, "One side takes nothing any more.")


async def relay(
    client: ClientEndpoint,
    host: HostEndpoint,
    idle_s: float | None,
    until: Sequence[asyncio.Task[Ended]],
    is_wrong: Callable[[bytes], bool],
) -> Ended:
    """Return why it ended.

    ``idle_s``: None for however long; ``until``: what else ends it; ``is_wrong``: whether a console that says this
    first is one of another kind.
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
    except TimeoutError:  # also what the system says of a host that is gone
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
    """Run both until one of all ends, and return what it says."""
    both = {asyncio.create_task(one), asyncio.create_task(other)}
    try:
        done, _ = await asyncio.wait({*both, *until}, return_when=asyncio.FIRST_COMPLETED)
        return done.pop().result()
    finally:
        for task in both:
            task.cancel()
        await asyncio.gather(*both, return_exceptions=True)
