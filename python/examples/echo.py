# SPDX-License-Identifier: BSD-3-Clause
"""An echo server over streams, and its client: `echo.py`, or `echo.py HOST PORT TEXT`."""

import asyncio
import sys

import causeway


async def answer(endpoint: causeway.Endpoint) -> None:
    endpoint.on_close(lambda endpoint, error: print("end of a client:", error or "it closed", flush=True))
    buffer = bytearray(4096)
    while (length := await endpoint.stream_recv(buffer)) > 0:  # 0: the client has closed
        await endpoint.stream_send(buffer[:length])
    await endpoint.close()


async def serve() -> None:
    async with causeway.Context(causeway.Feature.STREAM) as context, context.worker() as worker:
        listener = worker.listen(answer, "localhost")
        print("listening at %s %d" % listener.address, flush=True)
        await asyncio.Event().wait()


async def ask(host: str, port: int, text: bytes) -> None:
    async with causeway.Context(causeway.Feature.STREAM) as context, context.worker() as worker:
        try:
            endpoint = await asyncio.wait_for(worker.connect(host, port), 10)
        except (OSError, asyncio.TimeoutError) as error:  # no such name, refused, unreachable
            sys.exit("no connection to %s port %d: %s" % (host, port, error or "no answer"))
        async with endpoint:
            await endpoint.stream_send(text)
            buffer = bytearray(len(text))
            await endpoint.stream_recv(buffer, whole=True)
            print(buffer.decode())


if __name__ == "__main__":
    try:
        asyncio.run(ask(sys.argv[1], int(sys.argv[2]), sys.argv[3].encode()) if len(sys.argv) > 3 else serve())
    except KeyboardInterrupt:
        pass
