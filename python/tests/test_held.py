# SPDX-License-Identifier: BSD-3-Clause
"""What an operation uses is there until it has ended, on every way out; a handle that has ended is not used."""

import asyncio
import gc
import unittest

import base
import causeway

LARGE = 4 << 20


class Does:
    """A buffer on a device that there is not, which calls a function when it is checked."""

    def __init__(self, function):
        self.function = function

    @property
    def __cuda_array_interface__(self):
        self.function()
        return {"shape": (8,), "typestr": "|u1", "data": (4096, False), "version": 3}


class Held(base.Pair):
    async def test_messages_that_wait_while_their_connection_is_closed(self):
        for force in (True, False):
            self.far.am_open(1)
            client = await self.near.connect(*self.listener.address)
            while not self.others:
                await asyncio.sleep(0.001)
            server = self.others.pop()
            for number in range(8):
                await self.within(client.am_send(1, b"x", header=b"%d" % number, reply=True))
            inbox = self.far._inboxes[1]
            while len(inbox.messages) < 8:
                await asyncio.sleep(0.001)
            first = await self.within(self.far.am_recv(1))
            self.assertIs(first.endpoint, server)
            await self.within(first.endpoint.close(force=force))
            while inbox.messages:
                message = await self.far.am_recv(1)
                self.assertTrue(message.endpoint.closed)
                await self.fails(causeway.ClosedError, message.endpoint.am_send(2, b"x" * 100, header=b"reply"))
            try:
                await self.within(client.close(force=True))
            except causeway.Error:
                pass

    async def test_a_handler_closes_the_connection_of_those_behind(self):
        seen = []

        def handler(message):
            seen.append(message.endpoint)
            if len(seen) == 1:
                message.endpoint.close(True)

        self.far._core.set_handler(1, handler)
        for _ in range(100):  # until several messages have come in one round of progress
            seen.clear()
            client = await self.near.connect(*self.listener.address)
            await self.within(asyncio.gather(*(client.am_send(1, bytes(8), reply=True) for _ in range(8)),
                                             return_exceptions=True))
            while not seen:
                await asyncio.sleep(0.001)
            await asyncio.sleep(0.01)
            for endpoint in seen:
                self.assertTrue(endpoint.closed)
                with self.assertRaises(causeway.ClosedError):
                    endpoint.am_send(2, b"", b"x", 0)
            if len(seen) > 1:
                return
        self.fail("no two messages came at once")

    async def borrowed(self):
        """A message of a worker known by its address, and what that worker sends by."""
        self.far.am_open(1)
        sender = self.near.connect_worker(self.far.address)
        await self.within(sender.am_send(1, b"x", reply=True))
        return await self.within(self.far.am_recv(1)), sender

    async def test_the_sender_has_gone(self):
        message, sender = await self.borrowed()
        self.assertFalse(message.endpoint.closed)
        await self.within(sender.close())
        while not message.endpoint.closed:
            await asyncio.sleep(0.001)
        for call in (message.endpoint.am_send(2, b"x"), message.endpoint.tag_send(b"x", 1), message.endpoint.flush(),
                     message.endpoint.stream_recv(bytearray(1), whole=True), message.endpoint.am_send(2, bytes(LARGE))):
            error = await self.fails(causeway.EndError, call)
            self.assertIn("the peer has ended the connection", str(error))
        with self.assertRaises(causeway.EndError):
            message.endpoint.unpack_key(b"key")
        await self.within(message.endpoint.close())
        self.assertEqual(self.far._core.pending, 0)

    async def test_the_sender_goes_while_it_is_answered(self):
        message, sender = await self.borrowed()
        answering = asyncio.create_task(message.endpoint.am_send(2, bytearray(LARGE)))
        await asyncio.sleep(0)
        await self.within(sender.close(force=True))
        await self.within(asyncio.gather(answering, return_exceptions=True))
        while not message.endpoint.closed:
            await asyncio.sleep(0.001)
        await self.fails(ConnectionResetError, message.endpoint.am_send(2, b"x"))

    async def test_the_worker_of_the_sender_has_gone(self):
        self.far.am_open(1)
        other = self.context.worker()
        await self.within(other.connect_worker(self.far.address).am_send(1, b"x", reply=True))
        message = await self.within(self.far.am_recv(1))
        await other.close()
        while not message.endpoint.closed:
            await asyncio.sleep(0.001)
        await self.fails(causeway.EndError, message.endpoint.am_send(2, b"x"))

    async def test_a_borrowed_endpoint_becomes_that_of_the_program(self):
        message, sender = await self.borrowed()
        mine = self.far.connect_worker(self.near.address)
        self.assertIs(message.endpoint, mine)
        self.near.am_open(2)
        await self.within(mine.am_send(2, b"x"))
        await self.within(self.near.am_recv(2))
        await self.within(mine.close())
        await self.fails(causeway.ClosedError, message.endpoint.am_send(2, b"x"))
        await self.within(sender.close(force=True))

    async def test_a_borrowed_endpoint_that_was_closed_comes_again(self):
        message, sender = await self.borrowed()
        await self.within(message.endpoint.close())
        await self.fails(causeway.ClosedError, message.endpoint.am_send(2, b"x"))
        del message
        gc.collect()
        await self.within(sender.am_send(1, b"y", reply=True))
        message = await self.within(self.far.am_recv(1))
        self.near.am_open(2)
        await self.within(message.endpoint.am_send(2, b"x"))
        await self.within(self.near.am_recv(2))
        await self.within(sender.close())
        while not message.endpoint.closed:
            await asyncio.sleep(0.001)

    async def test_receives_that_time_out_leave_nothing(self):
        self.far.am_open(1)
        for _ in range(100):
            with self.assertRaises(asyncio.TimeoutError):
                await asyncio.wait_for(self.far.am_recv(1), 0.0001)
        for _ in range(100):
            receiving = asyncio.create_task(self.far.am_recv(1))
            await asyncio.sleep(0)
            receiving.cancel()
            with self.assertRaises(asyncio.CancelledError):
                await receiving
        self.assertEqual(len(self.far._inboxes[1].waiters), 0)
        receive = self.far.am_recv(1)
        receive.send(None)
        receive.close()  # as the end of the program drops its tasks
        self.assertEqual(len(self.far._inboxes[1].waiters), 0)

    async def test_a_message_for_a_cancelled_task_goes_to_the_next(self):
        self.far.am_open(1)
        inbox = self.far._inboxes[1]
        first, second = (asyncio.create_task(self.far.am_recv(1)) for _ in range(2))
        await asyncio.sleep(0)

        def put(message):  # what arrives is given to the first, which is cancelled before its next step
            inbox.put(message)
            first.cancel()

        self.far._core.set_handler(1, put)
        await self.within(self.client.am_send(1, b"x"))
        with self.assertRaises(asyncio.CancelledError):
            await self.within(first)
        self.assertEqual(bytes((await self.within(second)).data), b"x")
        self.assertEqual((len(inbox.waiters), len(inbox.messages)), (0, 0))

    async def test_cancelled_operations_give_back_what_they_used(self):
        self.far.am_open(1)
        place = bytearray(LARGE)
        memory = self.context.map(place)
        address, key = memory.address, self.client.unpack_key(memory.key())
        sends = bytearray(LARGE)

        async def take():  # a send may be under way until its receiver has read it
            while True:
                await self.far.tag_recv(bytearray(LARGE))

        async def drop():
            while True:
                (await self.far.am_recv(1)).release()

        takers = [asyncio.create_task(take()), asyncio.create_task(drop())]
        for delay in (0, 0.01):
            for make in (lambda: self.client.tag_send(sends, 1), lambda: self.client.tag_send(sends, 1, sync=True),
                         lambda: self.client.am_send(1, sends), lambda: self.client.put(sends, address, key),
                         lambda: self.client.get(sends, address, key), lambda: self.client.fetch_add(1, address, key),
                         self.client.flush, self.near.flush, lambda: self.near.tag_recv(sends, 9),
                         lambda: self.client.stream_recv(sends)):
                task = asyncio.create_task(make())
                await asyncio.sleep(delay)
                task.cancel()
                await self.within(self.server.stream_send(b"x"))  # a receive of a stream cannot be given up
                done, _ = await asyncio.wait([task], timeout=60)
                self.assertEqual(done, {task})
                sends.append(0)  # BufferError while it is used
                sends.pop()
        for task in takers:
            task.cancel()
        await self.within(asyncio.wait(takers))
        self.assertEqual(self.near._core.pending, 0)
        key.close()
        memory.close()

    async def test_a_cancelled_fetch_gives_its_buffer_back(self):
        self.far.am_open(1)
        sending = asyncio.create_task(self.client.am_send(1, bytes(LARGE)))
        message = await self.within(self.far.am_recv(1))
        target = bytearray(LARGE)
        fetching = asyncio.create_task(message.recv_into(target))
        await asyncio.sleep(0)
        fetching.cancel()
        await self.within(asyncio.wait([fetching, sending]))
        target.clear()

    async def test_a_cancelled_close_goes_on(self):
        closing = asyncio.create_task(self.client.close())
        await asyncio.sleep(0)
        closing.cancel()
        await self.within(asyncio.wait([closing]))
        self.assertTrue(self.client.closed)
        await self.fails(causeway.ClosedError, self.client.flush())

    async def test_the_worker_ends_with_keys_in_use(self):
        place = bytearray(LARGE)
        memory = self.context.map(place)
        key = self.client.unpack_key(memory.key())
        buffers = [bytearray(LARGE) for _ in range(4)]
        tasks = [asyncio.create_task(self.client.put(buffers[0], memory.address, key)),
                 asyncio.create_task(self.client.get(buffers[1], memory.address, key)),
                 asyncio.create_task(self.client.fetch_add(1, memory.address, key)),
                 asyncio.create_task(self.client.tag_send(buffers[2], 1)),
                 asyncio.create_task(self.client.am_send(1, buffers[3]))]
        await asyncio.sleep(0)
        await self.near.close()
        await self.within(asyncio.wait(tasks))
        for task in tasks:
            self.assertIsInstance(task.exception(), (causeway.Error, type(None)))
        for buffer in buffers:
            buffer.clear()
        key.close()
        memory.close()

    async def test_a_key_that_is_forgotten_while_it_is_used(self):
        place = bytearray(LARGE)
        memory = self.context.map(place)
        for size in (8, LARGE):
            key = self.client.unpack_key(memory.key())
            putting = asyncio.create_task(self.client.put(bytes([7]) * size, memory.address, key))
            await asyncio.sleep(0)
            del key
            await self.within(putting)
            await self.within(self.client.flush())
            self.assertEqual(place[:size], bytes([7]) * size)
            place[:] = bytes(LARGE)
        memory.close()

    async def test_buffers_that_close_what_is_used(self):
        memory = self.context.map(bytearray(64))
        for make in (lambda ep, key, buffer: ep.tag_send(buffer, 1), lambda ep, key, buffer: ep.am_send(1, buffer),
                     lambda ep, key, buffer: ep.stream_send(buffer), lambda ep, key, buffer: ep.stream_recv(buffer),
                     lambda ep, key, buffer: ep.put(buffer, memory.address, key),
                     lambda ep, key, buffer: ep.get(buffer, memory.address, key)):
            endpoint = await self.near.connect(*self.listener.address)
            key = endpoint.unpack_key(memory.key())
            await self.fails(causeway.ClosedError, make(endpoint, key, Does(lambda: endpoint._core.close(True))))
            self.assertTrue(endpoint.closed)
        key = self.client.unpack_key(memory.key())
        for call in (self.client.put, self.client.get):
            await self.fails(causeway.ClosedError, call(Does(key.close), memory.address, key))
        memory.close()
        self.assertEqual(self.near._core.pending, 0)

    async def test_a_buffer_that_releases_the_message_it_is_for(self):
        self.far.am_open(1)
        sending = asyncio.create_task(self.client.am_send(1, bytes(LARGE)))
        message = await self.within(self.far.am_recv(1))
        await self.fails(causeway.ClosedError, message.recv_into(Does(message.release)))
        await self.within(asyncio.wait([sending]))

    async def test_numbers_that_close_what_is_used(self):
        class Index:
            def __init__(self, close):
                self.close = close

            def __index__(self):
                self.close(True)
                return 1

        await self.fails(causeway.ClosedError, self.client.tag_send(b"x", Index(self.client._core.close)))
        self.assertTrue(self.client.closed)


class HeldTcp(Held):
    settings = {"TLS": "tcp"}


if __name__ == "__main__":
    unittest.main()
