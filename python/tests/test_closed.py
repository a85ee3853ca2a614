# SPDX-License-Identifier: BSD-3-Clause
"""Objects that were closed, or whose owner was, answer with an exception of their own."""

import asyncio
import unittest

import base
import causeway


class Closed(base.Pair):
    def refuses(self, *calls):
        for call in calls:
            with self.assertRaises(causeway.ClosedError):
                call()

    async def test_listener(self):
        self.listener.close()
        self.listener.close()
        self.refuses(lambda: self.listener.address)

    async def test_memory_and_keys(self):
        place = bytearray(4096)
        memory = self.context.map(place)
        address, key = memory.address, self.client.unpack_key(memory.key())
        key.close()
        key.close()
        for call in (self.client.put(b"x", address, key), self.client.get(bytearray(1), address, key),
                     self.client.fetch_add(1, address, key)):
            await self.fails(causeway.ClosedError, call)
        memory.close()
        memory.close()
        self.refuses(memory.key)
        place.clear()  # nothing uses it any more
        self.assertIsNone(self.near._core.waiter().value)

    async def test_message(self):
        self.far.am_open(1)
        for size in (10, 4 << 20):
            sending = asyncio.create_task(self.client.am_send(1, bytes(size)))
            with await self.within(self.far.am_recv(1)) as message:
                self.assertEqual(message.length, size)
            message.release()
            with self.assertRaises((BufferError, causeway.Error)):
                await self.within(message.recv())
            with self.assertRaises((BufferError, causeway.Error)):
                message.data
            try:
                await self.within(sending)
            except causeway.Error:
                pass  # its receiver dropped it

    async def test_what_belongs_to_a_closed_worker(self):
        self.far.am_open(1)
        await self.within(self.client.am_send(1, b"text"))
        message = await self.within(self.far.am_recv(1))
        memory = self.context.map(bytearray(4096))
        key = self.server.unpack_key(memory.key())
        await self.far.close()
        self.refuses(lambda: self.far.address, lambda: self.far.listen(print), lambda: self.far.am_open(2),
                     lambda: self.far.connect_worker(self.near.address), self.far.fence, lambda: self.far.tag_probe(1),
                     lambda: self.server.unpack_key(b"x"), lambda: self.listener.address)
        for call in (self.server.flush(), self.server.put(b"x", memory.address, key), self.far.am_recv(1),
                     self.far.flush(), self.far.connect("127.0.0.1", 1)):
            await self.fails(causeway.ClosedError, call)
        await self.within(self.server.close())
        self.assertTrue(self.server.closed)
        message.release()
        key.close()
        memory.close()

    async def test_context(self):
        context = causeway.Context()
        context.close()
        context.close()
        self.refuses(context.worker, lambda: context.map(bytearray(1)))


if __name__ == "__main__":
    unittest.main()
