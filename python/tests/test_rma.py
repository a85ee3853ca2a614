# SPDX-License-Identifier: BSD-3-Clause
"""Remote memory and atomics."""

import unittest

import base
import causeway


class Rma(base.Pair):
    async def asyncSetUp(self):
        await super().asyncSetUp()
        self.bytes = bytearray(1 << 16)
        self.memory = self.context.map(self.bytes)
        self.key = self.client.unpack_key(self.memory.key())

    async def asyncTearDown(self):
        self.key.close()
        self.memory.close()
        await super().asyncTearDown()
        self.bytes.clear()  # nothing uses it any more

    async def test_put_and_get(self):
        for size in (0, 1, 8, 1000, 1 << 16):
            data = bytes(i * 7 & 255 for i in range(size))
            await self.within(self.client.put(data, self.memory.address, self.key))
            await self.within(self.client.flush())
            self.assertEqual(bytes(self.bytes[:size]), data)
            back = bytearray(size)
            await self.within(self.client.get(back, self.memory.address, self.key))
            self.assertEqual(bytes(back), data)

    async def test_atomics(self):
        for width in (4, 8):
            limit = (1 << 8 * width) - 1
            address, key = self.memory.address + 64, self.key
            await self.within(self.client.swap(0, address, key, width=width))
            self.assertEqual(await self.within(self.client.fetch_add(5, address, key, width=width)), 0)
            self.assertEqual(await self.within(self.client.fetch_add(-6, address, key, width=width)), 5)
            self.assertEqual(await self.within(self.client.swap(0b1100, address, key, width=width)), limit)
            self.assertEqual(await self.within(self.client.fetch_and(0b0110, address, key, width=width)), 0b1100)
            self.assertEqual(await self.within(self.client.fetch_or(0b0011, address, key, width=width)), 0b0100)
            self.assertEqual(await self.within(self.client.fetch_xor(0b0101, address, key, width=width)), 0b0111)
            self.assertEqual(await self.within(self.client.compare_swap(9, 1, address, key, width=width)), 0b0010)
            self.assertEqual(await self.within(self.client.compare_swap(2, 1, address, key, width=width)), 0b0010)
            self.assertEqual(int.from_bytes(self.bytes[64:64 + width], "little"), 1)

    async def test_bad_keys_and_addresses(self):
        for key in (b"", b"x", bytes(64), b"\xff" * 64):
            with self.assertRaises(causeway.Error):
                self.client.unpack_key(key)
        with self.assertRaises(TypeError):
            self.client.unpack_key("text")
        with self.assertRaises(TypeError):
            await self.client.put(b"x", self.memory.address, b"key")
        with self.assertRaises(ValueError):
            await self.server.put(b"x", self.memory.address, self.key)
        with self.assertRaises(ValueError):
            await self.client.fetch_add(1, self.memory.address, self.key, width=3)

    async def test_mapped_memory_keeps_its_size(self):
        with self.assertRaises(BufferError):
            self.bytes.clear()
        with self.assertRaises(BufferError):
            self.context.map(b"read-only")


class RmaTcp(Rma):
    settings = {"TLS": "tcp"}


if __name__ == "__main__":
    unittest.main()
