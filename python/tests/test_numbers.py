# SPDX-License-Identifier: BSD-3-Clause
"""Numbers that a call cannot take raise OverflowError: none is cut to what fits."""

import unittest

import base
import causeway

WORD = 1 << 64


class Numbers(base.Pair):
    async def overflows(self, make, *numbers):
        for number in numbers:
            with self.subTest(number=number):
                with self.assertRaises(OverflowError):
                    answer = make(number)
                    if answer is not None:
                        await self.within(answer)

    async def test_tags_and_masks(self):
        await self.overflows(lambda tag: self.client.tag_send(b"x", tag), -1, WORD, WORD + 7, -WORD)
        await self.overflows(lambda tag: self.far.tag_recv(bytearray(1), tag), -1, WORD, WORD + 7)
        await self.overflows(lambda mask: self.far.tag_recv(bytearray(1), 1, mask), -1, WORD)
        await self.overflows(lambda tag: self.far.tag_probe(tag), -1, WORD)
        await self.overflows(lambda mask: self.far.tag_probe(1, mask), -1, WORD)
        self.assertEqual(self.far._core.pending, 0)
        await self.within(self.client.tag_send(b"x", WORD - 1))
        self.assertEqual(await self.within(self.far.tag_recv(bytearray(1), WORD - 1)), (1, WORD - 1))

    async def test_identifiers_and_flags(self):
        wrong = -1, 1 << 32, (1 << 32) + 1, WORD, -WORD
        await self.overflows(lambda id: self.client.am_send(id, b"x"), *wrong)
        await self.overflows(lambda id: self.far.am_recv(id), *wrong)
        await self.overflows(lambda id: self.far.am_open(id), *wrong)
        await self.overflows(lambda flags: self.client._core.am_send(1, b"", b"", flags), *wrong)
        self.assertEqual(self.far._inboxes, {})

    async def test_addresses_of_memory(self):
        memory = self.context.map(bytearray(64))
        key = self.client.unpack_key(memory.key())
        for number in (-1, WORD, WORD + memory.address, memory.address - WORD):
            await self.fails(OverflowError, self.client.put(b"x", number, key))
            await self.fails(OverflowError, self.client.get(bytearray(1), number, key))
            await self.fails(OverflowError, self.client.fetch_add(1, number, key))
        self.assertEqual(self.near._core.pending, 0)
        key.close()
        memory.close()

    async def test_operands(self):
        memory = self.context.map(bytearray(64))
        place, key = memory.address, self.client.unpack_key(memory.key())
        for width in (4, 8):
            most, least = (1 << 8 * width) - 1, -(1 << 8 * width - 1)
            for number in (most + 1, least - 1, most << 64, least << 64):
                for call in (self.client.fetch_add(number, place, key, width=width),
                             self.client.swap(number, place, key, width=width),
                             self.client.fetch_and(number, place, key, width=width),
                             self.client.fetch_or(number, place, key, width=width),
                             self.client.fetch_xor(number, place, key, width=width),
                             self.client.compare_swap(number, 0, place, key, width=width),
                             self.client.compare_swap(0, number, place, key, width=width)):
                    await self.fails(OverflowError, call)
            await self.within(self.client.swap(least, place, key, width=width))
            self.assertEqual(await self.within(self.client.swap(most, place, key, width=width)), -least)
            self.assertEqual(await self.within(self.client.swap(0, place, key, width=width)), most)
        for width, error in ((1 << 32, OverflowError), (-4, ValueError), (0, ValueError)):
            await self.fails(error, self.client.fetch_add(1, place, key, width=width))
        await self.fails(OverflowError, self.async_atomic((1 << 32) + 1, place, key))
        await self.fails(ValueError, self.async_atomic(-1, place, key))
        key.close()
        memory.close()

    async def async_atomic(self, operation, place, key):
        return self.client._core.atomic(operation, 1, 0, place, key, 8, True)

    async def test_ports(self):
        port = self.listener.address[1]
        wrong = -1, 65536, 65536 + port, (1 << 32) + port, port - (1 << 32), WORD + port
        await self.overflows(lambda number: self.near.connect("127.0.0.1", number), *wrong)
        await self.overflows(lambda number: self.far.listen(print, "127.0.0.1", number) and None, *wrong)

    async def test_features(self):
        for number in (-1, WORD, WORD + 1):
            with self.assertRaises(OverflowError):
                causeway._core.Context(number)

    async def test_numbers_of_device_arrays(self):
        def array(**changes):
            class Array:
                __cuda_array_interface__ = {"shape": (8,), "typestr": "|u1", "data": (4096, False), "version": 3,
                                            **changes}
            return Array()

        for changes in ({"data": (-1, False)}, {"data": (WORD, False)}, {"data": (WORD + 4096, False)},
                        {"shape": (WORD + 8,)}, {"shape": (1 << 63,)}):
            await self.fails(OverflowError, self.client.tag_send(array(**changes), 1))
        for changes in ({"typestr": "|u%d" % (1 << 32)}, {"typestr": "|u%d" % (WORD + 1)}, {"shape": (-8,)}):
            await self.fails(ValueError, self.client.tag_send(array(**changes), 1))


if __name__ == "__main__":
    unittest.main()
