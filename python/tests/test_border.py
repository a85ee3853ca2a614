# SPDX-License-Identifier: BSD-3-Clause
"""Bad input: wrong types, buffers that cannot serve, device memory where there is no device."""

import asyncio
import socket
import unittest

import base
import causeway


class Device:
    def __init__(self, **changes):
        self.__cuda_array_interface__ = {"shape": (4, 2), "typestr": "<f4", "data": (0x7f0000000000, False),
                                         "version": 3, **changes}


class Closes:
    """Closes the endpoint while it is checked."""

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

    async def test_read_only_buffers_are_named(self):
        for bad, kind in ((b"bytes", "bytes"), (memoryview(b"bytes"), "memoryview")):
            for call in (self.far.tag_recv(bad, 1), self.server.stream_recv(bad)):
                error = await self.fails(BufferError, call)
                self.assertEqual(str(error), "a read-only buffer cannot be received into: '%s'" % kind)
        error = await self.fails(BufferError, self.far.tag_recv(memoryview(bytearray(10))[::2], 1))
        self.assertNotIn("read-only", str(error))
        with self.assertRaisesRegex(BufferError, "read-only.*'bytes'"):
            self.context.map(b"bytes")

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
        for host, port, error in (("no address", 1, OSError), ("127.0.0.1", 65536, OverflowError), ("", 1, OSError),
                                  (5, 1, TypeError), (None, 1, TypeError), ("127.0.0.1", "x", TypeError)):
            await self.fails(error, self.near.connect(host, port))
            if host != "" and host is not None:
                with self.assertRaises(error):
                    self.far.listen(print, host, port)
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
        error = await self.fails(ConnectionRefusedError, self.near.connect(host, port))
        self.assertIsInstance(error, causeway.NotConnectedError)
        self.assertIn("127.0.0.1", str(error))  # the library says who refused
        self.assertEqual(self.near._core.pending, 0)

    async def test_names_are_resolved(self):
        loop, (host, port) = asyncio.get_running_loop(), self.listener.address
        found = {"two": [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.2", 0)),
                         (socket.AF_INET, socket.SOCK_STREAM, 6, "", (host, 0))], "none": []}

        async def getaddrinfo(name, service, **options):
            return found[name]

        loop.getaddrinfo = getaddrinfo
        endpoint = await self.within(self.near.connect("two", port))  # the second address has a listener
        self.assertEqual(endpoint.peer, (host, port))
        await self.fails(causeway.UnreachableError, self.near.connect("none", port))
        del loop.getaddrinfo
        endpoint = await self.within(self.near.connect("localhost", port))
        await self.within(endpoint.tag_send(b"x", 1))
        listener = self.far.listen(print, "localhost")
        self.assertIn(listener.address[0], ("127.0.0.1", "::1"))

    async def test_a_connect_that_is_cancelled(self):
        with socket.socket() as silent:  # takes the connection and says nothing
            silent.bind(("127.0.0.1", 0))
            silent.listen()
            with self.assertRaises(asyncio.TimeoutError):
                await asyncio.wait_for(self.near.connect(*silent.getsockname()), 0.05)
        self.assertEqual(self.near._core.pending, 0)

    async def test_the_librarys_sentence(self):
        with self.assertRaisesRegex(causeway.Error, "UCX_TLS=tpc"):
            causeway.Context(settings={"TLS": "tpc"})
        with self.assertRaisesRegex(causeway.InvalidParamError, "nonsense"):
            causeway.Context(settings={"RNDV_THRESH": "nonsense"})
        context = causeway.Context(causeway.Feature.AM)
        worker = context.worker()
        error = await self.fails(causeway.InvalidParamError, worker.tag_recv(bytearray(1), 1))
        self.assertIn("UCP_FEATURE_TAG", str(error))
        with self.assertRaises(causeway.Error) as caught:
            worker.connect_worker(bytes(100))
        self.assertNotIn("UCP_FEATURE_TAG", str(caught.exception))  # it is that of another call
        await worker.close()
        context.close()

    async def test_reprs(self):
        host, port = self.listener.address
        memory = self.context.map(bytearray(4096))
        key = self.client.unpack_key(memory.key())
        self.far.am_open(1)
        await self.within(self.client.am_send(1, b"text"))
        message = await self.within(self.far.am_recv(1))
        for thing, text in ((self.context, "<causeway.Context with TAG|RMA|AMO32|AMO64|STREAM|AM>"),
                            (self.near, "<causeway.Worker with 1 endpoints>"),
                            (self.listener, "<causeway.Listener at %s:%d>" % (host, port)),
                            (self.client, "<causeway.Endpoint to %s:%d>" % (host, port)),
                            (message, "<causeway.Message of 4 bytes>"), (key, "<causeway.RemoteKey>"),
                            (memory, "<causeway.Memory of 4096 bytes at 0x%x>" % memory.address)):
            self.assertEqual(repr(thing), text)
        message.release()
        key.close()
        memory.close()
        self.listener.close()
        await self.within(self.client.close())
        await self.near.close()
        for thing, text in ((self.listener, "Listener"), (self.client, "Endpoint"), (self.near, "Worker"),
                            (key, "RemoteKey"), (memory, "Memory")):
            self.assertEqual(repr(thing), "<causeway.%s closed>" % text)

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
