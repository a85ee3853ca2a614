# SPDX-License-Identifier: BSD-3-Clause
"""A task that is cancelled gives its buffer back; closing ends what is under way."""

import asyncio
import unittest

import base
import causeway


class Counting:
    """Stands before the extension's worker and counts how often it is asked to run."""

    def __init__(self, worker):
        self.worker, self.core, self.calls = worker, worker._core, 0
        worker._core = self

    def run(self, direct):
        self.calls += 1
        return self.core.run(direct)

    def __getattr__(self, name):
        return getattr(self.core, name)

    def stop(self):
        self.worker._core = self.core
        return self.calls


class Cancel(base.Pair):
    async def test_cancelled_receive_frees_its_buffer(self):
        buffer = bytearray(10)
        receiving = asyncio.create_task(self.far.tag_recv(buffer, 1))
        await asyncio.sleep(0.01)
        with self.assertRaises(BufferError):
            buffer.clear()  # in use
        receiving.cancel()
        with self.assertRaises(asyncio.CancelledError):
            await self.within(receiving)
        buffer.clear()
        await self.within(self.client.tag_send(b"later", 1))
        later = bytearray(10)
        self.assertEqual(await self.within(self.far.tag_recv(later, 1)), (5, 1))
        self.assertEqual(bytes(later), b"later" + bytes(5))

    async def test_cancelled_send_that_nobody_matched(self):
        payload = bytearray(4 << 20)
        sending = asyncio.create_task(self.client.tag_send(payload, 2, sync=True))
        await asyncio.sleep(0.05)
        sending.cancel()
        with self.assertRaises(asyncio.CancelledError):
            await self.within(sending)
        payload.clear()

    async def test_cancelled_send_waits_until_its_buffer_is_free(self):
        self.far.am_open(3)
        payload = bytearray(4 << 20)
        sending = asyncio.create_task(self.client.am_send(3, payload))
        message = await self.within(self.far.am_recv(3))
        for _ in range(2):  # once more changes nothing
            sending.cancel()
            await asyncio.sleep(0.05)
            self.assertFalse(sending.done())  # the receiver knows where the payload lies, and may read it
            with self.assertRaises(BufferError):
                payload.clear()
        self.assertEqual(await self.within(message.recv_into(bytearray(4 << 20))), 4 << 20)
        with self.assertRaises(asyncio.CancelledError):
            await self.within(sending)
        payload.clear()

    async def test_time_out(self):
        buffer = bytearray(1)
        with self.assertRaises(asyncio.TimeoutError):
            await asyncio.wait_for(self.far.tag_recv(buffer, 3), 0.05)
        buffer.clear()

    async def test_forced_close_ends_a_send(self):
        payload = bytearray(4 << 20)
        sending = asyncio.create_task(self.client.tag_send(payload, 2, sync=True))
        await asyncio.sleep(0.05)
        await self.within(self.client.close(force=True))
        await self.fails(causeway.CanceledError, sending)
        payload.clear()

    async def test_close_of_the_worker_ends_receives(self):
        buffer = bytearray(10)
        tag = asyncio.create_task(self.far.tag_recv(buffer, 1))
        stream = asyncio.create_task(self.server.stream_recv(bytearray(10)))
        message = asyncio.create_task(self.far.am_recv(1))
        await asyncio.sleep(0.01)
        await self.far.close()
        await self.fails(causeway.CanceledError, tag)
        await self.fails(causeway.CanceledError, stream)
        await self.fails(causeway.ClosedError, message)
        buffer.clear()

    async def test_nothing_is_polled(self):
        await self.within(self.client.tag_send(b"x", 4))
        await self.within(self.far.tag_recv(bytearray(1), 4))
        await asyncio.sleep(0.1)
        counted = [Counting(worker) for worker in (self.near, self.far)]
        await asyncio.sleep(0.5)
        self.assertLess(sum(counting.stop() for counting in counted), 20)


if __name__ == "__main__":
    unittest.main()
