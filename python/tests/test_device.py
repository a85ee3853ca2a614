# SPDX-License-Identifier: BSD-3-Clause
"""Device memory by __cuda_array_interface__, over the stand-in for the CUDA driver that CW_STANDIN names (test/gpu):
a processor that touches its device memory is ended by a signal."""

import asyncio
import ctypes
import os
import unittest

import base
import causeway

DRIVER = ctypes.CDLL(os.environ["CW_STANDIN"], mode=ctypes.RTLD_GLOBAL)
DRIVER.standin_peek.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t]
DRIVER.standin_peek.restype = None
DRIVER.cuMemFree_v2.argtypes = [ctypes.c_uint64]


class Array:
    """Bytes on the device, as libraries of Python show theirs."""

    made = []

    def __init__(self, content, **changes):
        self.length = len(content)
        address = ctypes.c_uint64()
        if DRIVER.cuMemAlloc_v2(ctypes.byref(address), max(self.length, 1)) != 0:
            raise MemoryError("the stand-in gives no memory")
        self.address = address.value
        self.made.append(self.address)
        DRIVER.standin_peek(self.address, bytes(content), self.length)
        self.__cuda_array_interface__ = {"shape": (self.length,), "typestr": "|u1", "version": 3, "strides": None,
                                         "data": (self.address, False), **changes}

    def __bytes__(self):
        place = ctypes.create_string_buffer(max(self.length, 1))
        DRIVER.standin_peek(ctypes.addressof(place), self.address, self.length)
        return place.raw[:self.length]


def pattern(size, seed=0):
    return bytes((i * 7 + i // 251 + seed) & 255 for i in range(size))


class DeviceTcp(base.Pair):
    settings = {"TLS": "self,tcp,cuda"}
    sizes = (8, 8192, 100000, 1 << 20)

    @classmethod
    def setUpClass(cls):
        cls.device = ctypes.c_void_p()
        assert DRIVER.cuInit(0) == 0
        assert DRIVER.cuDevicePrimaryCtxRetain(ctypes.byref(cls.device), 0) == 0
        assert DRIVER.cuCtxPushCurrent_v2(cls.device) == 0

    async def asyncTearDown(self):
        await super().asyncTearDown()
        while Array.made:
            self.assertEqual(DRIVER.cuMemFree_v2(Array.made.pop()), 0)

    async def test_tag(self):
        for size in self.sizes:
            for source, target in ((Array(pattern(size)), Array(bytes(size))), (Array(pattern(size)), bytearray(size)),
                                   (pattern(size), Array(bytes(size)))):
                receiving = asyncio.create_task(self.far.tag_recv(target, 1))
                await self.within(self.client.tag_send(source, 1))
                self.assertEqual(await self.within(receiving), (size, 1))
                self.assertEqual(bytes(target), pattern(size))

    async def test_stream(self):
        for size in self.sizes:
            target = Array(bytes(size))
            sending = asyncio.create_task(self.client.stream_send(Array(pattern(size, 1))))
            self.assertEqual(await self.within(self.server.stream_recv(target, whole=True)), size)
            await self.within(sending)
            self.assertEqual(bytes(target), pattern(size, 1))

    async def test_active_messages(self):
        self.far.am_open(1)
        for size in self.sizes:
            sending = asyncio.create_task(self.client.am_send(1, Array(pattern(size, 2)), header=b"header"))
            message = await self.within(self.far.am_recv(1))
            self.assertEqual((message.header, message.length), (b"header", size))
            if message.rendezvous:
                target = Array(bytes(size))
                self.assertEqual(await self.within(message.recv_into(target)), size)
            else:
                target = await message.recv()
            self.assertEqual(bytes(target), pattern(size, 2))
            await self.within(sending)

    async def test_remote_memory_on_the_device(self):
        size = 1 << 16
        place = Array(bytes(size))
        memory = self.context.map(place)
        self.assertEqual((memory.address, memory.length), (place.address, size))
        key = self.client.unpack_key(memory.key())
        await self.within(self.client.put(Array(pattern(size, 3)), memory.address, key))
        await self.within(self.client.flush())
        self.assertEqual(bytes(place), pattern(size, 3))
        back = Array(bytes(size))
        await self.within(self.client.get(back, memory.address, key))
        self.assertEqual(bytes(back), pattern(size, 3))
        key.close()
        memory.close()

    async def test_what_cannot_be_received_into(self):
        array = Array(bytes(8))
        array.__cuda_array_interface__["data"] = (array.address, True)
        await self.fails(BufferError, self.far.tag_recv(array, 1))
        with self.assertRaises(BufferError):
            self.context.map(array)
        await self.within(self.client.tag_send(array, 1))  # what is read-only can be sent
        await self.within(self.far.tag_recv(bytearray(8), 1))
        array.__cuda_array_interface__.update(data=(array.address, False), shape=(2, 2), strides=(4, 1))
        await self.fails(BufferError, self.client.tag_send(array, 1))


class DeviceShm(DeviceTcp):
    settings = {"TLS": "self,shm,tcp,cuda"}


if __name__ == "__main__":
    unittest.main()
