# SPDX-License-Identifier: BSD-3-Clause
"""Tag messages."""

import asyncio
import unittest

import base
import causeway


class Tag(base.Pair):
    async def test_exchange(self):
        for size in (0, 1, 8, 8192, 1 << 20):
            buffer = bytearray(size)
            receiving = asyncio.create_task(self.far.tag_recv(buffer, 7))
            await self.within(self.client.tag_send(b"x" * size, 7))
            self.assertEqual(await self.within(receiving), (size, 7))
            self.assertEqual(bytes(buffer), b"x" * size)

    async def test_mask_and_probe(self):
        await self.within(self.client.tag_send(b"abc", 0xffff000000000012, sync=False))
        while self.far.tag_probe(0x12, 0xff) is None:
            await asyncio.sleep(0.001)
        self.assertEqual(self.far.tag_probe(0x12, 0xff), (3, 0xffff000000000012))
        self.assertIsNone(self.far.tag_probe(0x13, 0xff))
        buffer = bytearray(3)
        self.assertEqual(await self.within(self.far.tag_recv(buffer, 0x12, 0xff)), (3, 0xffff000000000012))

    async def test_sync_send_waits_for_the_receive(self):
        sending = asyncio.create_task(self.client.tag_send(b"abc", 9, sync=True))
        await asyncio.sleep(0.05)
        self.assertFalse(sending.done())
        await self.within(self.far.tag_recv(bytearray(3), 9))
        await self.within(sending)

    async def test_truncated(self):
        await self.within(self.client.tag_send(b"too long", 5))
        error = await self.fails(causeway.TruncatedError, self.far.tag_recv(bytearray(3), 5))
        self.assertIn("the receive of a tag message failed: ", str(error))
        self.assertEqual(error.status, -9)
        receiving = asyncio.create_task(self.far.tag_recv(bytearray(3), 6))
        await asyncio.sleep(0.01)
        await self.within(self.client.tag_send(b"too long", 6))
        error = await self.fails(causeway.TruncatedError, receiving)
        self.assertIn("the receive of a tag message failed: ", str(error))


if __name__ == "__main__":
    unittest.main()
