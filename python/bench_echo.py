#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""How fast the package is: echoes of 8 bytes beside plain asyncio streams, messages of 1 MiB beside the C tool.

    bench_echo.py [--rounds N] [--perftest PROGRAM] [--tls LIST] [--patience SECONDS]

Client and server are processes of their own, each on a processor of its own if there are two. Echoes of streams of
asyncio, of the package's stream and of its tag messages take turns, over the loopback device; so do runs of 1 MiB
messages of the package and of `ucx_perftest`, over the transports of --tls. Medians of ratios between neighbours.
"""

import argparse
import asyncio
import os
import re
import socket
import statistics
import subprocess
import sys
import time

if sys.path[0] == os.path.dirname(os.path.abspath(__file__)):
    del sys.path[0]  # the sources lie there, without the extension: the installed package is meant
import causeway

ALLOWED = sorted(os.sched_getaffinity(0))
ECHOES = 3000
LONG = 1 << 20
LONGS = 2000
WARM_UP = 80
WINDOW = 8
KEPT = []


def pin(number):
    """One of the processors that this program may use."""
    os.sched_setaffinity(0, {ALLOWED[number % len(ALLOWED)]})


async def in_window(count, operation):
    """So many operations, of which WINDOW are under way at any time."""
    async def some():
        for _ in range(count // WINDOW):
            await operation()

    await asyncio.gather(*(some() for _ in range(WINDOW)))


async def echo_streams(reader, writer):
    sock = writer.get_extra_info("socket")
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    try:
        while True:
            writer.write(await reader.readexactly(8))
    except (asyncio.IncompleteReadError, ConnectionError):
        writer.close()


async def echo_endpoint(worker, endpoint):
    """Serves what the first byte asks for: echoes of the stream, of tag messages, or long messages."""
    KEPT.append(endpoint)  # one that is forgotten is closed
    kind, buffer = bytearray(1), bytearray(8)
    await endpoint.stream_recv(kind, whole=True)
    if kind == b"s":
        for _ in range(ECHOES):
            await endpoint.stream_recv(buffer, whole=True)
            await endpoint.stream_send(buffer)
    elif kind == b"t":
        for _ in range(ECHOES):
            await worker.tag_recv(buffer, 1)
            await endpoint.tag_send(buffer, 2)
    else:
        place = bytearray(LONG)  # one for all messages, as the tool has
        for count in (WARM_UP, LONGS):
            await in_window(count, lambda: worker.tag_recv(place, 3))
            await endpoint.stream_send(b"d")


async def serve(pipe, tls, patience):
    pin(1)
    plain = await asyncio.start_server(echo_streams, "127.0.0.1", 0)
    settings = {"TLS": tls} if tls else {}
    async with causeway.Context(settings=settings) as context, context.worker(**patience) as worker:
        listener = worker.listen(lambda endpoint: echo_endpoint(worker, endpoint), "127.0.0.1")
        port = plain.sockets[0].getsockname()[1]
        os.write(pipe, ("%d %d\n" % (port, listener.address[1])).encode())
        await asyncio.Event().wait()


async def plain_echo(port):
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    begin = time.perf_counter()
    for _ in range(ECHOES):
        writer.write(b"12345678")
        await reader.readexactly(8)
    took = time.perf_counter() - begin
    writer.close()
    return ECHOES / took


async def our_echo(worker, port, kind):
    buffer = bytearray(8)
    async with await worker.connect("127.0.0.1", port) as endpoint:
        await endpoint.stream_send(kind)
        begin = time.perf_counter()
        for _ in range(ECHOES):
            if kind == b"s":
                await endpoint.stream_send(b"12345678")
                await endpoint.stream_recv(buffer, whole=True)
            else:
                await endpoint.tag_send(b"12345678", 1)
                await worker.tag_recv(buffer, 2)
        return ECHOES / (time.perf_counter() - begin)


async def our_bandwidth(worker, port):
    done, payload = bytearray(1), bytes(LONG)
    async with await worker.connect("127.0.0.1", port) as endpoint:
        await endpoint.stream_send(b"l")
        for count in (WARM_UP, LONGS):
            begin = time.perf_counter()
            await in_window(count, lambda: endpoint.tag_send(payload, 3))
            await endpoint.stream_recv(done, whole=True)
        return LONGS * LONG / (time.perf_counter() - begin) / 1e6


def tool_bandwidth(perftest, tls):
    """Of the C tool, in MB/s: the last number of its summary."""
    port = socket.create_server(("127.0.0.1", 0))
    number = str(port.getsockname()[1])
    port.close()
    environment = dict(os.environ, **({"UCX_TLS": tls} if tls else {}))
    line = [perftest, "-t", "tag_bw", "-s", str(LONG), "-n", str(LONGS), "-w", str(WARM_UP), "-O", str(WINDOW)]
    line += ["-p", number]
    server = subprocess.Popen(line, stdout=subprocess.DEVNULL, env=environment, preexec_fn=lambda: pin(1))
    time.sleep(0.5)
    try:
        done = subprocess.run(line + ["127.0.0.1"], capture_output=True, text=True, env=environment, check=True,
                              preexec_fn=lambda: pin(0), timeout=120)
        server.wait(30)
    finally:
        server.kill()
    final = [line for line in done.stdout.splitlines() if line.startswith("Final:")][-1]
    return float(re.findall(r"[\d.]+", final)[5]) * 1.048576


def ratio(ours, theirs):
    return statistics.median(a / b for a, b in zip(ours, theirs))


async def client(options, ports):
    pin(0)
    plain, stream, tag, long, tool = [], [], [], [], []
    settings = {"TLS": options.tls} if options.tls else {}
    async with causeway.Context(settings=settings) as context, context.worker(**options.patience) as worker:
        for _ in range(options.rounds):
            plain.append(await plain_echo(ports[0]))
            stream.append(await our_echo(worker, ports[1], b"s"))
            tag.append(await our_echo(worker, ports[1], b"t"))
            long.append(await our_bandwidth(worker, ports[1]))
            if options.perftest:
                tool.append(tool_bandwidth(options.perftest, options.tls))
    print("echoes of 8 bytes a second, medians of %d rounds: "
          "asyncio streams %.0f, stream %.0f (%.2f), tag %.0f (%.2f)" %
          (options.rounds, statistics.median(plain), statistics.median(stream), ratio(stream, plain),
           statistics.median(tag), ratio(tag, plain)))
    text = "messages of 1 MiB: %.0f MB/s" % statistics.median(long)
    if tool:
        text += ", the C tool %.0f (%.2f)" % (statistics.median(tool), ratio(long, tool))
    print(text)


def main():
    parser = argparse.ArgumentParser(description="Measures the package beside plain asyncio and the C tool.")
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--perftest", help="ucx_perftest of the same build")
    parser.add_argument("--tls", default="tcp,self", help="transports (default: %(default)s)")
    parser.add_argument("--patience", type=float, help="seconds that workers try before they sleep")
    options = parser.parse_args()
    options.patience = {} if options.patience is None else {"patience": options.patience}
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(read)
        try:
            asyncio.run(serve(write, options.tls, options.patience))
        finally:
            os._exit(1)
    os.close(write)
    try:
        with os.fdopen(read) as pipe:
            ports = [int(word) for word in pipe.readline().split()]
        asyncio.run(client(options, ports))
    finally:
        os.kill(pid, 9)
        os.waitpid(pid, 0)
    return 0


if __name__ == "__main__":
    sys.exit(main())
