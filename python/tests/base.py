# SPDX-License-Identifier: BSD-3-Clause
"""What the tests share: two workers of one process, connected by a listener."""

import asyncio
import unittest

import causeway


class Pair(unittest.IsolatedAsyncioTestCase):
    """self.client and self.server are endpoints to each other, of the workers self.near and self.far."""

    settings = None

    async def asyncSetUp(self):
        self.context = causeway.Context(settings=self.settings)
        self.near, self.far = self.context.worker(), self.context.worker()
        accepted = asyncio.get_running_loop().create_future()
        self.others = []  # endpoints of later clients
        self.listener = self.far.listen(lambda endpoint: self.others.append(endpoint) if accepted.done()
                                        else accepted.set_result(endpoint))
        self.client = await self.near.connect(*self.listener.address)
        self.server = await self.within(accepted)

    async def asyncTearDown(self):
        await self.near.close()
        await self.far.close()
        self.context.close()

    @staticmethod
    async def within(awaitable, seconds=60):
        """Nothing may hang."""
        return await asyncio.wait_for(awaitable, seconds)

    async def fails(self, exception, awaitable):
        with self.assertRaises(exception) as caught:
            await self.within(awaitable)
        return caught.exception
