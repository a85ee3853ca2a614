# SPDX-License-Identifier: BSD-3-Clause
"""Bad input: wrong types, buffers that cannot serve, device memory where there is no device."""

import asyncio
import unittest

import base
import causeway


class Device:
    def __init__(self, **changes):
        self.__cuda_array_interface__ = {"shape": (4, 2), "typestr": "<f4", "data": (0x7f0000000000, False),
                                         "version": 3, **changes}


class Closes:
    """Closes the endpoint while it is looked at."""

    def __init__(self, worker):
        self.worker = worker

    @property
    def __cuda_array_interface__(self):
        self.worker._core.close()
        return Device().__cuda_array_interface__


class Border(base.Pair):
    async def test_types(self):
        for bad in (None, 5, "text", [1], object()):
            await self.fails(TypeError, self.client.tag_send(bad, 1))
            await self.fails(TypeError, self.client.am_send(1, bad))
            await self.fails(TypeError, self.client.am_send(1, b"", header=bad))
            await self.fails(TypeError, self.client.stream_send(bad))
            await self.fails(TypeError, self.far.tag_recv(bad, 1))
            await self.fails(TypeError, self.server.stream_recv(bad))
        for bad in ("1", None, 1.5):
            await self.fails(TypeError, self.client.tag_send(b"", bad))
        await self.fails(causeway.InvalidParamError, self.client.am_send(65536, b""))
        await self.fails(causeway.InvalidParamError, self.client.am_send(1, b"", header=bytes(1 << 20)))

    async def test_receives_need_what_can_be_written(self):
        for bad in (b"read-only", memoryview(b"read-only"), memoryview(bytearray(10))[::2]):
            await self.fails(BufferError, self.far.tag_recv(bad, 1))
            await self.fails(BufferError, self.server.stream_recv(bad))
        await self.fails(BufferError, self.client.tag_send(memoryview(b"0123456789")[::2], 1))
        self.assertEqual(self.far._core.pending, 0)

    async def test_device_memory(self):
        for bad, error in ((Device(data=5), TypeError), (Device(data=("x", False)), TypeError),
                           (Device(shape=(-1,)), ValueError), (Device(shape=(1 << 62, 4)), ValueError),
                           (Device(typestr="x"), ValueError), (Device(shape=5), TypeError),
                           (Device(strides=(100, 4)), BufferError), (Device(strides=(4,)), BufferError)):
            await self.fails(error, self.client.tag_send(bad, 1))
        await self.fails(BufferError, self.far.tag_recv(Device(data=(4096, True)), 1))
        with self.assertRaises(causeway.Error):
            self.context.map(Device())

    async def test_device_memory_without_a_device(self):
        await self.fails(causeway.UnsupportedError, self.client.tag_send(Device(), 1))
        await self.fails(causeway.UnsupportedError, self.far.tag_recv(Device(strides=(8, 4)), 1))

    async def test_a_buffer_that_closes_the_worker(self):
        await self.fails(causeway.ClosedError, self.client.tag_send(Closes(self.near), 1))

    async def test_addresses(self):
        for host, port, error in (("no address", 1, ValueError), ("127.0.0.1", 65536, OverflowError),
                                  (5, 1, TypeError), ("127.0.0.1", "x", TypeError)):
            await self.fails(error, self.near.connect(host, port))
        for bad in (b"", b"x", bytes(100), b"\xff" * 100):
            with self.assertRaises(causeway.Error):
                self.near.connect_worker(bad)
        with self.assertRaises(TypeError):
            self.near.connect_worker("text")
        with self.assertRaises(causeway.BusyError):
            self.near.listen(lambda endpoint: None, *self.listener.address)

    async def test_nobody_listens(self):
        host, port = self.listener.address
        self.listener.close()
        endpoint = await self.near.connect(host, port)
        await self.fails(ConnectionRefusedError, endpoint.tag_send(b"x" * (1 << 20), 1))
        await self.within(endpoint.close(force=True))

    async def test_settings_and_features(self):
        with self.assertRaises(causeway.InvalidParamError):
            causeway.Context(settings={"RNDV_THRESH": "nonsense"})
        with self.assertRaises(TypeError):
            causeway.Context(settings=[1])
        with self.assertRaises(TypeError):
            causeway.Context(settings={"TLS": 5})
        context = causeway.Context(causeway.Feature.AM)
        worker = context.worker()
        await self.fails(causeway.InvalidParamError, worker.tag_recv(bytearray(1), 1))
        await worker.close()
        context.close()

    async def test_made_by_hand(self):
        for name in ("Endpoint", "Request", "Message", "Memory", "RemoteKey", "Listener", "Client"):
            with self.assertRaises(TypeError):
                getattr(causeway._core, name)()


if __name__ == "__main__":
    unittest.main()
