# SPDX-License-Identifier: BSD-3-Clause
"""Echoes of several MB between two processes with asyncio on both sides, by tag messages and by active messages.

    PYTHONPATH=DIRECTORY python3 echo.py         DIRECTORY is where build_ucp.py put its module

The client starts the server (`echo.py server`); worker addresses go through the pipes between them, as lines of hex.
At the end the client checks whether its descriptor is quiet when nothing happens, and wakes when it is signalled.
"""
import asyncio
import os
import struct
import sys
import threading
import time

import ucp_asyncio
from ucp_asyncio import UcpError, Worker, lib

ORDER = struct.Struct("=QQ")  # tag and length of a message that follows; no tag: it is over
ORDERS = 1                    # the tag of orders
QUESTION, ANSWER = 1, 2       # ids of active messages
SIZES = [0, 17, 4096, 3_000_000, 3_000_001, 8 << 20]


async def echo_tag(worker, ep, tag, length):
    await worker.send(ep, tag, await worker.receive(tag, length))


async def echo_am(worker):
    """A question that is long still lies at the client, which may go on with others while this one is fetched."""
    async def answer(message):
        await worker.send_am(message.reply_ep, ANSWER, message.header, await worker.fetch(message))

    tasks = set()
    while True:
        task = asyncio.create_task(answer(await worker.messages.get()))
        tasks.add(task)
        task.add_done_callback(tasks.discard)


async def serve():
    worker = Worker(QUESTION)
    print(worker.address().hex(), flush=True)
    ep = worker.connect(bytes.fromhex(sys.stdin.readline()))
    questions, tasks = asyncio.create_task(echo_am(worker)), []

    while True:
        tag, length = ORDER.unpack(await worker.receive(ORDERS, ORDER.size))
        if tag == 0:
            break
        tasks.append(asyncio.create_task(echo_tag(worker, ep, tag, length)))
    await asyncio.gather(*tasks)
    questions.cancel()
    await worker.close(ep)
    worker.destroy()


async def ask_by_tag(worker, ep, tag, data):
    await worker.send(ep, ORDERS, ORDER.pack(tag, len(data)))
    _, echo = await asyncio.gather(worker.send(ep, tag, data), worker.receive(tag, len(data)))
    assert echo == data, f"{len(data)} bytes came back wrong by tag"


async def ask_by_am(worker, ep, texts):
    async def collect():
        for _ in texts:
            message = await worker.messages.get()
            number = int.from_bytes(message.header, "little")
            assert await worker.fetch(message) == texts[number], f"active message {number} came back wrong"

    questions = [worker.send_am(ep, QUESTION, number.to_bytes(4, "little"), text) for number, text in enumerate(texts)]
    await asyncio.gather(collect(), *questions)


async def check_sleep(worker):
    await asyncio.sleep(0.1)  # what is left of the last messages
    before = worker.wakeups
    await asyncio.sleep(0.3)
    assert worker.wakeups - before < 5, f"{worker.wakeups - before} wake-ups while nothing happened"
    before = worker.wakeups
    threading.Timer(0.05, lib.ucp_worker_signal, [worker.worker]).start()
    await asyncio.sleep(0.3)
    assert 0 < worker.wakeups - before < 5, f"{worker.wakeups - before} wake-ups by one signal"


async def ask():
    server = await asyncio.create_subprocess_exec(sys.executable, __file__, "server", stdin=asyncio.subprocess.PIPE,
                                                  stdout=asyncio.subprocess.PIPE)
    worker = Worker(ANSWER)
    server.stdin.write(worker.address().hex().encode() + b"\n")
    ep = worker.connect(bytes.fromhex((await server.stdout.readline()).decode()))
    texts = [os.urandom(size) for size in SIZES]
    start = time.monotonic()

    await asyncio.gather(*(ask_by_tag(worker, ep, 100 + i, text) for i, text in enumerate(texts)))
    await ask_by_am(worker, ep, texts)
    elapsed = time.monotonic() - start
    await check_sleep(worker)
    try:  # a receive that nobody serves can be given up
        await asyncio.wait_for(worker.receive(99, 10), 0.1)
        raise AssertionError("received what nobody sent")
    except asyncio.TimeoutError:
        assert not ucp_asyncio.waiting, "a cancelled receive is still there"

    await worker.send(ep, ORDERS, ORDER.pack(0, 0))
    await worker.close(ep)
    assert await server.wait() == 0, "the server failed"
    prepared = ucp_asyncio.areas
    worker.destroy()
    assert prepared > 0 and ucp_asyncio.areas == 0, f"{ucp_asyncio.areas} of {prepared} requests not cleaned up"
    print(f"{2 * sum(SIZES)} bytes came back in {elapsed:.3f} s with {worker.wakeups} wake-ups")


if __name__ == "__main__":
    try:
        asyncio.run(asyncio.wait_for(serve() if sys.argv[1:] == ["server"] else ask(), 50))
    except (UcpError, AssertionError) as error:
        sys.exit(f"echo.py: {error}")
