# SPDX-License-Identifier: BSD-3-Clause
"""What asyncio promises to tasks, where the package makes their next step itself when an operation is complete."""

import asyncio
import contextvars
import subprocess
import sys
import unittest

import base
import causeway

VARIABLE = contextvars.ContextVar("VARIABLE", default=0)


class Loop(base.Pair):
    async def test_tasks_keep_their_context(self):
        async def receive(number):
            VARIABLE.set(number)
            mine = asyncio.current_task()
            for _ in range(10):
                await self.far.tag_recv(bytearray(8), number)
                self.assertEqual(VARIABLE.get(), number)
                self.assertIs(asyncio.current_task(), mine)

        receiving = [asyncio.create_task(receive(number)) for number in range(1, 6)]
        await asyncio.sleep(0)
        for _ in range(10):
            for number in range(1, 6):
                await self.within(self.client.tag_send(b"12345678", number))
        await self.within(asyncio.gather(*receiving))
        self.assertEqual(VARIABLE.get(), 0)

    async def test_others_have_their_turn(self):
        going, turns = True, 0

        async def echo(worker, endpoint, first):
            buffer = bytearray(8)
            if first:
                await endpoint.tag_send(buffer, 1)
            while going:
                await worker.tag_recv(buffer, 1)
                await endpoint.tag_send(buffer, 1)

        async def count():
            nonlocal turns
            while True:
                await asyncio.sleep(0)
                turns += 1

        tasks = [asyncio.create_task(echo(self.near, self.client, True)),
                 asyncio.create_task(echo(self.far, self.server, False)), asyncio.create_task(count())]
        await asyncio.sleep(0.3)
        going = False
        self.assertGreater(turns, 50)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def test_a_task_closes_its_worker(self):
        async def receive():
            await self.far.tag_recv(bytearray(8), 1)
            await self.far.close()

        others = [asyncio.create_task(self.far.tag_recv(bytearray(8), 2)),
                  asyncio.create_task(self.far.am_recv(1))]
        receiving = asyncio.create_task(receive())
        await asyncio.sleep(0.01)
        await self.within(self.client.tag_send(b"12345678", 1))
        await self.within(receiving)
        await self.fails(causeway.CanceledError, others[0])
        await self.fails(causeway.ClosedError, others[1])

    async def test_a_task_that_fails_fails_alone(self):
        async def receive(bad):
            await self.far.tag_recv(bytearray(8), 1)
            if bad:
                raise LookupError("mine")

        receiving = [asyncio.create_task(receive(number == 1)) for number in range(3)]
        await asyncio.sleep(0.01)
        for _ in range(3):
            await self.within(self.client.tag_send(b"12345678", 1))
        answers = await self.within(asyncio.gather(*receiving, return_exceptions=True))
        self.assertEqual([type(answer) for answer in answers], [type(None), LookupError, type(None)])

    async def test_a_step_that_cancels_the_next_task(self):
        async def receive(name):
            message = await self.far.am_recv(1)
            if name == "first":
                tasks["second"].cancel()
            return bytes(message.data)

        self.far.am_open(1)
        tasks = {name: asyncio.create_task(receive(name)) for name in ("first", "second")}
        await asyncio.sleep(0.01)
        for text in (b"a", b"b"):
            await self.within(self.client.am_send(1, text))
        self.assertEqual(await self.within(tasks["first"]), b"a")
        with self.assertRaises(asyncio.CancelledError):
            await self.within(tasks["second"])
        self.assertEqual(await self.within(receive("third")), b"b")

    async def test_timeouts_and_groups(self):
        for _ in range(20):
            buffers = [bytearray(8) for _ in range(4)]
            receiving = asyncio.gather(*(self.far.tag_recv(buffer, 7) for buffer in buffers))
            for _ in buffers:
                await asyncio.wait_for(self.client.tag_send(b"12345678", 7), 60)
            self.assertEqual(await asyncio.wait_for(receiving, 60), [(8, 7)] * 4)

    async def test_patience(self):
        for bad in (-1.0, 0.011, float("nan"), float("inf")):
            with self.assertRaises(ValueError):
                self.context.worker(patience=bad)
        with self.assertRaises(TypeError):
            self.context.worker(patience="long")
        for patience in (0, 0.01):
            async with self.context.worker(patience=patience) as worker:
                endpoint = worker.connect_worker(self.far.address)
                for _ in range(100):
                    await self.within(endpoint.tag_send(b"x", 3))
                    await self.within(self.far.tag_recv(bytearray(1), 3))

    async def test_awaited_without_a_task(self):
        request = self.far._core.tag_recv(bytearray(8), 1, 0)
        self.assertFalse(request.done)
        self.assertIs(next(iter(request)), request)
        with self.assertRaises(RuntimeError):
            next(request)
        with self.assertRaises(RuntimeError):
            request.result()
        request.add_done_callback(lambda answered: None)
        with self.assertRaises(RuntimeError):
            request.add_done_callback(lambda answered: None)
        with self.assertRaises(RuntimeError):
            request.set(1)


INTERRUPTED = """
import asyncio, causeway

async def main():
    async with causeway.Context() as context, context.worker() as near, context.worker() as far:
        async def receive():
            await far.tag_recv(bytearray(1), 1)
            raise %s
        task = asyncio.create_task(receive())
        await asyncio.sleep(0.01)
        await near.connect_worker(far.address).tag_send(b"x", 1)
        await asyncio.sleep(60)

try:
    asyncio.run(main())
except %s:
    print("as it should be")
"""


class Interrupted(unittest.TestCase):
    def test_what_ends_the_program(self):
        for name in ("KeyboardInterrupt", "SystemExit"):
            done = subprocess.run([sys.executable, "-B", "-c", INTERRUPTED % (name, name)], capture_output=True,
                                  text=True, timeout=60)
            self.assertEqual(done.stdout, "as it should be\n", done.stderr)


if __name__ == "__main__":
    unittest.main()
