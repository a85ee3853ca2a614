# SPDX-License-Identifier: BSD-3-Clause
"""The lives of objects: closing, forgetting, other threads, forks, peers that go."""

import asyncio
import gc
import os
import sys
import threading
import unittest
import weakref

import base
import causeway


DIES = """
import asyncio, causeway, os, sys
async def main():
    worker = causeway.Context().worker()
    endpoint = await worker.connect("127.0.0.1", int(sys.argv[1]))
    os._exit(3)
asyncio.run(main())
"""


class Life(base.Pair):
    async def test_closed_objects(self):
        await self.within(self.client.close())
        await self.within(self.client.close())
        self.assertTrue(self.client.closed)
        for call in (self.client.tag_send(b"", 1), self.client.flush(), self.client.am_send(1),
                     self.client.stream_recv(bytearray(1))):
            await self.fails(causeway.ClosedError, call)
        await self.near.close()
        await self.near.close()
        await self.fails(causeway.ClosedError, self.near.tag_recv(bytearray(1), 1))
        with self.assertRaises(causeway.ClosedError):
            self.near.address
        with self.assertRaises(RuntimeError):
            self.context.close()  # the other worker exists

    async def test_peer_that_closes(self):
        receiving = asyncio.create_task(self.server.stream_recv(bytearray(10)))
        await asyncio.sleep(0.01)
        await self.within(self.client.close())
        self.assertEqual(await self.within(receiving), 0)  # the end of the stream, as of a socket
        self.assertEqual(await self.within(self.server.stream_recv(bytearray(10))), 0)
        for call in (self.server.stream_recv(bytearray(10), whole=True), self.server.tag_send(b"x", 1),
                     self.server.flush()):
            error = await self.fails(causeway.EndError, call)
            self.assertNotIsInstance(error, ConnectionResetError)
            self.assertIsInstance(error, EOFError)
            self.assertIn("the peer closed the endpoint", str(error))
        self.assertIn("the peer closed the endpoint", repr(self.server))
        await self.within(self.server.close())

    async def test_bytes_before_the_end_arrive(self):
        await self.within(self.client.stream_send(b"last words"))
        await self.within(self.client.close())
        text, part = b"", bytearray(4)
        while (length := await self.within(self.server.stream_recv(part))) > 0:
            text += part[:length]
        self.assertEqual(text, b"last words")

    async def test_close_callbacks(self):
        calls = []
        for endpoint in (self.client, self.server):
            endpoint.on_close(lambda endpoint, error: calls.append((endpoint, error)))
        await self.within(self.client.close())
        while len(calls) < 2:
            await asyncio.sleep(0.001)
        self.assertEqual({endpoint for endpoint, _ in calls}, {self.client, self.server})
        self.assertEqual([error for _, error in calls], [None, None])  # an orderly close on both sides
        self.client.on_close(lambda endpoint, error: calls.append(error))  # has ended already
        self.server.on_close(lambda endpoint, error: calls.append(error))
        await self.within(self.server.close())
        await asyncio.sleep(0.01)
        self.assertEqual(calls[2:], [None, None])

    async def test_close_callback_of_a_peer_that_dies(self):
        calls = []
        accepted = asyncio.get_running_loop().create_future()
        listener = self.far.listen(accepted.set_result)
        peer = await asyncio.create_subprocess_exec(sys.executable, "-B", "-c", DIES, str(listener.address[1]))
        endpoint = await self.within(accepted)
        endpoint.on_close(lambda endpoint, error: calls.append((endpoint, error)))
        await self.fails(ConnectionResetError, endpoint.stream_recv(bytearray(1)))
        while not calls:
            await asyncio.sleep(0.001)
        self.assertIs(calls[0][0], endpoint)
        self.assertIsInstance(calls[0][1], causeway.ResetError)
        self.assertEqual(await self.within(peer.wait()), 3)

    async def test_close_callbacks_make_no_cycle(self):
        endpoint = await self.near.connect(*self.listener.address)
        endpoint.on_close(lambda ended, error, mine=endpoint: mine)
        gone = weakref.ref(endpoint)
        del endpoint
        gc.collect()
        self.assertIsNone(gone())

    async def test_peer_whose_worker_goes(self):
        self.far.am_open(1)
        await self.within(self.client.am_send(1, b"x"))
        await self.within(self.far.am_recv(1))
        await self.far.close()

        async def send_until_it_fails():
            while True:
                await self.client.am_send(1, bytes(1000))
                await asyncio.sleep(0.001)

        await self.fails(causeway.Error, send_until_it_fails())

    async def test_forgotten_objects(self):
        for _ in range(50):
            endpoint = await self.near.connect(*self.listener.address)
            del endpoint
        context = causeway.Context()
        worker = context.worker()
        worker.listen(lambda endpoint: None)
        asyncio.get_running_loop().remove_reader(worker._fd)
        del worker, context
        gc.collect()
        await asyncio.sleep(0.05)

    async def test_unread_messages_at_the_end(self):
        self.far.am_open(1)
        for size in (0, 10, 10000):
            await self.within(self.client.am_send(1, bytes(size)))
        large = asyncio.create_task(self.client.am_send(1, bytes(4 << 20)))
        await asyncio.sleep(0.05)
        await self.far.close()
        try:
            await self.within(large)
        except causeway.Error:
            pass

    async def test_other_thread(self):
        raised = []

        def use():
            for call in (lambda: self.near.address, lambda: self.near._core.run(True),
                         lambda: self.near._core.tag_recv(bytearray(1), 1, 0),
                         lambda: self.client._core.flush(), lambda: self.client._core.close(True),
                         lambda: self.listener.close(), lambda: self.near._core.close()):
                try:
                    call()
                except RuntimeError as error:
                    raised.append(str(error))

        thread = threading.Thread(target=use)
        thread.start()
        thread.join()
        self.assertEqual(len(raised), 7)
        self.assertTrue(all("another thread" in text for text in raised), raised)

    async def test_other_thread_may_free(self):
        endpoints = [await self.near.connect(*self.listener.address) for _ in range(5)]
        thread = threading.Thread(target=endpoints.clear)
        thread.start()
        thread.join()
        await self.within(self.client.tag_send(b"x", 1))

    async def test_fork(self):
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            answer = b"?"
            try:
                raised = 0
                for call in (lambda: self.near.address, lambda: self.client._core.flush(),
                             lambda: self.context._core.map(bytearray(1)), lambda: self.context.close(),
                             lambda: self.listener.address):
                    try:
                        call()
                    except causeway.ForkedError:
                        raised += 1
                self.client = self.server = None  # freeing does not disturb the parent
                context = causeway.Context()
                context.close()
                answer = b"%d" % raised
            finally:
                os.write(write, answer)
                os._exit(0)
        os.close(write)
        answer = os.read(read, 10)
        os.close(read)
        os.waitpid(child, 0)
        self.assertEqual(answer, b"5")
        receiving = asyncio.create_task(self.far.tag_recv(bytearray(1), 1))
        await self.within(self.client.tag_send(b"x", 1))
        await self.within(receiving)

    async def test_handlers_that_are_tasks(self):
        async def echo(endpoint):
            buffer = bytearray(5)
            await endpoint.stream_recv(buffer, whole=True)
            await endpoint.stream_send(buffer)

        listener = self.far.listen(echo, "127.0.0.1")
        endpoint = await self.near.connect(*listener.address)
        await self.within(endpoint.stream_send(b"hello"))
        buffer = bytearray(5)
        await self.within(endpoint.stream_recv(buffer, whole=True))
        self.assertEqual(buffer, b"hello")


if __name__ == "__main__":
    unittest.main()
