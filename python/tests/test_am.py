# SPDX-License-Identifier: BSD-3-Clause
"""Active messages and streams."""

import asyncio
import unittest

import base
import causeway


class Am(base.Pair):
    async def test_sizes(self):
        self.far.am_open(1)
        for size in (0, 1, 8, 1000, 8192, 100000, 1 << 20, 5 << 20):
            payload = bytes(range(256)) * (size // 256 + 1)
            payload = payload[:size]
            sending = asyncio.create_task(self.client.am_send(1, payload, header=b"h%d" % size))
            message = await self.within(self.far.am_recv(1))
            self.assertEqual(message.header, b"h%d" % size)
            self.assertEqual(message.length, size)
            self.assertEqual(bytes(await self.within(message.recv())), payload)
            await self.within(sending)

    async def test_payload_lies_where_it_arrived(self):
        self.far.am_open(2)
        await self.within(self.client.am_send(2, b"some bytes"))
        message = await self.within(self.far.am_recv(2))
        with message.data as view:
            self.assertTrue(view.readonly)
            self.assertEqual(bytes(view), b"some bytes")
            with self.assertRaises(BufferError):
                message.release()
            with self.assertRaises(BufferError):
                await self.far.close()
        message.release()
        with self.assertRaises(BufferError):
            message.data

    async def test_reply_comes_by_the_endpoint_of_the_listener(self):
        self.far.am_open(3)
        self.near.am_open(4)
        await self.within(self.client.am_send(3, b"question", reply=True))
        message = await self.within(self.far.am_recv(3))
        self.assertIs(message.endpoint, self.server)
        await self.within(message.endpoint.am_send(4, b"answer"))
        answer = await self.within(self.near.am_recv(4))
        self.assertEqual(bytes(answer.data), b"answer")
        self.assertIsNone(answer.endpoint)

    async def test_reply_to_a_worker_known_by_address(self):
        self.far.am_open(3)
        self.near.am_open(4)
        endpoint = self.near.connect_worker(self.far.address)
        await self.within(endpoint.am_send(3, b"question", reply=True))
        message = await self.within(self.far.am_recv(3))
        await self.within(message.endpoint.am_send(4, b"answer"))
        self.assertEqual(bytes((await self.within(self.near.am_recv(4))).data), b"answer")

    async def test_many_in_order(self):
        self.far.am_open(5)
        count = 2000

        async def send():
            for number in range(count):
                await self.client.am_send(5, number.to_bytes(8, "little"))

        sending = asyncio.create_task(send())
        for number in range(count):
            message = await self.within(self.far.am_recv(5))
            self.assertEqual(int.from_bytes(message.data, "little"), number)
        await sending

    async def test_cancelled_receive_loses_nothing(self):
        self.far.am_open(6)
        waiting = asyncio.create_task(self.far.am_recv(6))
        await asyncio.sleep(0)
        waiting.cancel()
        with self.assertRaises(asyncio.CancelledError):
            await waiting
        await self.within(self.client.am_send(6, b"kept"))
        self.assertEqual(bytes((await self.within(self.far.am_recv(6))).data), b"kept")

    async def test_small_buffer_is_refused(self):
        self.far.am_open(7)
        for size in (100, 1 << 20):
            sending = asyncio.create_task(self.client.am_send(7, bytes(size)))
            message = await self.within(self.far.am_recv(7))
            await self.fails(ValueError, message.recv_into(bytearray(size - 1)))
            self.assertEqual(await self.within(message.recv_into(bytearray(size + 1))), size)
            await self.within(sending)

    async def test_stream(self):
        data = bytes(range(256)) * 4096
        sending = asyncio.create_task(self.client.stream_send(data))
        whole = bytearray(len(data) - 10)
        self.assertEqual(await self.within(self.server.stream_recv(whole, whole=True)), len(whole))
        self.assertEqual(bytes(whole), data[:-10])
        rest = bytearray(100)
        self.assertEqual(await self.within(self.server.stream_recv(rest)), 10)
        self.assertEqual(bytes(rest[:10]), data[-10:])
        await self.within(sending)


class AmTcp(Am):
    settings = {"TLS": "tcp"}


if __name__ == "__main__":
    unittest.main()
